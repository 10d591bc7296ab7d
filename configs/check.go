package configs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the same zones on every machine

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

// checker holds documents to what the schema's rules cannot say, most of it across files.
type checker struct {
	docs     []*document
	profiles map[string]*connector.Profile // compiled: the files' own, and the shipped ones in use
	used     map[string]bool               // shipped profiles in use
	names    []string                      // of destinations
}

// item is one resource with its place.
type item[T any] struct {
	d    *document
	path string
	v    T
}

func (i item[T]) tell(field, problem, mend string) {
	path := i.path
	if field != "" {
		path += "." + field
	}
	// A field that breaks a rule of the schema need not be told twice.
	if i.d.told[path] || i.d.mootAround(path) {
		return
	}
	i.d.tellAt(path, problem, mend)
}

func newChecker(docs []*document) *checker {
	c := &checker{docs: docs, profiles: map[string]*connector.Profile{}, used: map[string]bool{}}
	for _, d := range docs {
		for _, x := range d.msg.(*configv1.Bundle).GetDestinations() {
			c.names = append(c.names, x.GetName())
		}
	}
	return c
}

func (c *checker) check() {
	c.checkProfiles()
	c.checkDestinations()
	c.checkPolicies()
	c.checkBudgets()
	c.checkPrices()
	c.checkKillSwitches()
}

// collectItems lists one type of resource over all documents and refuses names that are used twice.
func collectItems[T interface{ GetName() string }](c *checker, field string, get func(*configv1.Bundle) []T) []item[T] {
	var out []item[T]
	first := map[string]item[T]{}
	for _, d := range c.docs {
		for i, v := range get(d.msg.(*configv1.Bundle)) {
			x := item[T]{d, fmt.Sprintf("%s[%d]", field, i), v}
			out = append(out, x)
			name := v.GetName()
			if name == "" {
				continue // the rules say so
			}
			if f, twice := first[name]; twice {
				x.tell("name", fmt.Sprintf("%q is taken%s", name, f.where(d)), "choose another name, or remove one of the two")
				continue
			}
			first[name] = x
		}
	}
	return out
}

// where says in which line, and in which file if it is another one, the item stands.
func (i item[T]) where(from *document) string {
	p := i.d.place(i.path)
	switch {
	case p.line == 0:
		return " by " + i.path
	case i.d == from:
		return fmt.Sprintf(" in line %d", p.line)
	default:
		return fmt.Sprintf(" in %s:%d", i.d.file, p.line)
	}
}

func (c *checker) checkProfiles() {
	for _, x := range collectItems(c, "connector_profiles", (*configv1.Bundle).GetConnectorProfiles) {
		p, err := compileProfile(x.v)
		for _, e := range unjoinAll(err) {
			field, problem := profileProblem(e)
			x.tell(field, problem, "")
		}
		c.profiles[x.v.GetName()] = p
	}
}

// profile makes the profile with this name available, or says why not.
func (c *checker) profile(name string) (string, string) {
	if _, ok := c.profiles[name]; ok {
		return "", ""
	}
	shipped := shippedProfiles()[name]
	if shipped == nil {
		known := append(slices.Collect(maps.Keys(c.profiles)), slices.Collect(maps.Keys(shippedProfiles()))...)
		slices.Sort(known)
		known = slices.Compact(known)
		return fmt.Sprintf("%q is no connector profile", name), mendName(name, known)
	}
	p, err := compileProfile(shipped)
	if err != nil {
		return fmt.Sprintf("the shipped profile %q does not compile: %v", name, err), ""
	}
	c.profiles[name], c.used[name] = p, true
	return "", ""
}

func (c *checker) checkPolicies() {
	for _, x := range collectItems(c, "policies", (*configv1.Bundle).GetPolicies) {
		checkSelector(c, x, x.v.GetSelector())
		if x.v.GetFreezeExemption() != nil && slices.Contains(x.v.GetSelector().GetFunctions(), "*") {
			x.tell("selector.functions", `a freeze_exemption may not select every function with "*"`, "name the functions")
		}
	}
}

func checkSelector[T any](c *checker, x item[T], s *configv1.Selector) {
	for _, l := range []struct {
		field string
		list  []string
	}{
		{"tenants", s.GetTenants()},
		{"agents", s.GetAgents()},
		{"functions", s.GetFunctions()},
		{"destinations", s.GetDestinations()},
		{"actions", s.GetActions()},
	} {
		for i, v := range l.list {
			field := fmt.Sprintf("selector.%s[%d]", l.field, i)
			switch star := strings.IndexByte(v, '*'); {
			case v == "":
				x.tell(field, "empty: it would select nothing", "remove it")
			case star >= 0 && star != len(v)-1:
				x.tell(field, `"*" may only stand at the end`, "use a prefix followed by \"*\", or list the values")
			case l.field == "actions" && !c.someAction(v):
				// A rule that refuses nothing, for a slip of the pen, would not be noticed.
				x.tell(field, fmt.Sprintf("%q is no operation of any connector profile in use", v), "see the profile's operations, or remove it")
			case l.field == "destinations" && star < 0 && !slices.Contains(c.names, v):
				x.tell(field, fmt.Sprintf("%q is no destination", v), mendName(v, slices.Clone(c.names)))
			}
		}
	}
}

// someAction reports whether a profile in use has an action of this name or prefix, or one is not known.
func (c *checker) someAction(pattern string) bool {
	if matches([]string{pattern}, connector.Unnamed) {
		return true
	}
	for _, p := range c.profiles {
		if p == nil || slices.ContainsFunc(p.Actions(), func(a string) bool { return matches([]string{pattern}, a) }) {
			return true
		}
	}
	return false
}

func (c *checker) checkBudgets() {
	for _, x := range collectItems(c, "budgets", (*configv1.Bundle).GetBudgets) {
		checkSelector(c, x, x.v.GetSelector())
		if tz := x.v.GetTimeZone(); tz != "" {
			_, err := time.LoadLocation(tz)
			if err != nil || tz == "Local" {
				x.tell("time_zone", fmt.Sprintf("%q is no IANA time zone", tz), `for example "Europe/Berlin"`)
			}
		}
		if keys := x.v.GetKeyedBy(); len(keys) > 1 && slices.Contains(keys, configv1.Budget_FLEET) {
			x.tell("keyed_by", "FLEET is one account for all and stands alone", "remove FLEET or the others")
		}
	}
}

func (c *checker) checkKillSwitches() {
	for _, x := range collectItems(c, "kill_switches", (*configv1.Bundle).GetKillSwitches) {
		_, err := stoplog.ParseScope(x.v.GetName())
		if err != nil && x.v.GetName() != "" {
			x.tell("name", err.Error(), "")
		}
		if d := x.v.GetDecision(); d.GetAckedEpoch() > d.GetEpoch() {
			x.tell("decision.acked_epoch", "acknowledges raises that are newer than the decision", "at most its epoch")
		}
	}
}
