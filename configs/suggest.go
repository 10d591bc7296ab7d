package configs

import (
	"bytes"
	"cmp"
	"fmt"
	"mime"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Refused is what an agent tried and the configuration did not know.
type Refused struct {
	Host        string // authority of an unknown destination
	Destination string // known destination of an unclassified operation; then Host is not used
	Method      string
	Path        string // template behind the destination's url: "/users/{id}"
	ContentType string
	Count       int
}

// Suggest is the YAML that would admit what was refused: a destination with cautious limits for each unknown host, and an
// operation for each method and path. It is a draft for a person: whoever admits an operation says what it does.
func Suggest(records []Refused) string {
	destinations := map[string]*draftDestination{}
	profiles := map[string]*draftProfile{}
	hostNames := map[string]string{}
	records = slices.Clone(records)
	slices.SortFunc(records, func(a, b Refused) int {
		return cmp.Or(strings.Compare(a.Destination, b.Destination), strings.Compare(a.Host, b.Host), strings.Compare(a.Path, b.Path), strings.Compare(a.Method, b.Method))
	})
	for _, r := range records {
		name := r.Destination
		if name == "" {
			host := strings.ToLower(r.Host)
			if !hostForm.MatchString(host) {
				continue
			}
			name = hostNames[host]
			if name == "" {
				name = freeName(host, destinations)
				hostNames[host] = name
				destinations[name] = newDraft(name, host)
			}
			destinations[name].count += max(r.Count, 1)
		}
		op, ok := operationFor(r)
		if !ok || !nameForm.MatchString(name) {
			continue
		}
		if profiles[name] == nil {
			profiles[name] = &draftProfile{Name: name, shipped: shippedProfiles()[name] != nil}
		}
		profiles[name].add(op)
	}
	return render(destinations, profiles)
}

var (
	hostForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[0-9]{1,5})?$`)
	nameForm   = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$`)
	methodForm = regexp.MustCompile(`^[A-Z]{1,16}$`)
	pathForm   = regexp.MustCompile(`^/[!-~]{0,511}$`)
)

type draftDestination struct {
	Name     string         `yaml:"name"`
	URL      string         `yaml:"url"`
	Profile  string         `yaml:"connector_profile"`
	Networks []string       `yaml:"allowed_networks,omitempty,flow"`
	Deadline map[string]any `yaml:"deadline,flow"`
	Breaker  map[string]any `yaml:"breaker,flow"`
	Limit    map[string]any `yaml:"limit,flow"`
	count    int
}

type draftProfile struct {
	Name       string           `yaml:"name"`
	Operations []draftOperation `yaml:"operations"`
	shipped    bool
}

type draftOperation struct {
	Action  string   `yaml:"action"`
	Methods []string `yaml:"methods,flow"`
	Path    string   `yaml:"path"`
	Class   string   `yaml:"class"`
	Bodies  []string `yaml:"bodies,omitempty,flow"`
	count   int
}

func newDraft(name, host string) *draftDestination {
	d := &draftDestination{
		Name: name, URL: "https://" + host, Profile: name,
		Deadline: map[string]any{"total": "30s", "per_attempt": "10s"},
		Breaker: map[string]any{
			"window": "10s", "min_requests": 20, "failure_bps": 5000, "consecutive_failures": 12, "cooldown": "30s",
			"probes_per_second": 20, "close_after": 20, "ramp_double": "3s",
		},
		Limit: map[string]any{
			"requests":        map[string]any{"capacity": 10, "refill_tokens": 5, "refill_interval": "1s"},
			"max_concurrency": 16, "tenant_share_bps": 10000,
		},
	}
	if ip, private := local((&url.URL{Host: host}).Hostname()); private {
		d.URL = "http://" + host
		d.Networks = []string{fmt.Sprintf("%s/%d", ip, ip.BitLen())}
	}
	return d
}

// freeName makes "notion" of "api.notion.com".
func freeName(host string, taken map[string]*draftDestination) string {
	h := (&url.URL{Host: host}).Hostname()
	labels := strings.Split(h, ".")
	name := h
	if len(labels) > 1 && !strings.ContainsAny(labels[len(labels)-1], "0123456789") {
		name = labels[len(labels)-2]
	}
	name = strings.Trim(name, "-.")
	if taken[name] != nil || len(name) > 60 || !nameForm.MatchString(name) {
		name = strings.Trim(strings.NewReplacer(":", "-", ".", "-").Replace(host), "-")
	}
	return name[:min(len(name), 60)]
}

var notWord = regexp.MustCompile(`[^A-Za-z0-9]+`)

func operationFor(r Refused) (draftOperation, bool) {
	if !methodForm.MatchString(r.Method) || !pathForm.MatchString(r.Path) {
		return draftOperation{}, false
	}
	words := strings.Trim(notWord.ReplaceAllString(r.Path, "."), ".")
	action := strings.ToLower(r.Method)
	if words != "" {
		action += "." + words
	}
	op := draftOperation{
		Action: strings.TrimRight(action[:min(len(action), 120)], "."), Methods: []string{r.Method}, Path: r.Path, Class: "WRITE", count: max(r.Count, 1),
	}
	if r.Method == "GET" || r.Method == "HEAD" {
		op.Class = "READ"
	}
	media, _, err := mime.ParseMediaType(r.ContentType)
	switch {
	case r.ContentType == "":
	case media == "application/json" || strings.HasSuffix(media, "+json"):
		op.Bodies = []string{"JSON"}
	case media == "application/x-www-form-urlencoded":
		op.Bodies = []string{"FORM"}
	case media == "multipart/form-data":
		op.Bodies = []string{"MULTIPART"}
	case err == nil:
		op.Bodies = []string{"OPAQUE"}
	}
	return op, true
}

// add joins an operation with one of the same method and path.
func (p *draftProfile) add(op draftOperation) {
	for i, have := range p.Operations {
		if have.Path != op.Path || have.Methods[0] != op.Methods[0] {
			continue
		}
		p.Operations[i].count += op.count
		for _, b := range op.Bodies {
			if !slices.Contains(have.Bodies, b) {
				p.Operations[i].Bodies = append(p.Operations[i].Bodies, b)
			}
		}
		return
	}
	p.Operations = append(p.Operations, op)
}

const suggestHead = `# A draft of what would admit the refused effects. Read it before you use it: the class says what an operation does
# (READ, MODEL, WRITE or MESSAGE), and only you know. What reaches people is a MESSAGE and needs recipients.
`

func render(destinations map[string]*draftDestination, profiles map[string]*draftProfile) string {
	if len(destinations)+len(profiles) == 0 {
		return "# Nothing was refused as unknown.\n"
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	if len(destinations) > 0 {
		root.Content = append(root.Content, word("destinations"), seq(destinations, func(d *draftDestination) string {
			return fmt.Sprintf("%d refused", d.count)
		}))
	}
	if len(profiles) > 0 {
		root.Content = append(root.Content, word("connector_profiles"), seq(profiles, func(p *draftProfile) string {
			if p.shipped {
				return "Replaces the shipped profile of this name: copy that one, and add these operations to it."
			}
			return "Add these operations to the profile if there is one."
		}))
	}
	var out bytes.Buffer
	out.WriteString(suggestHead)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(root)
	if err != nil {
		return "# " + err.Error() + "\n" // plain maps and strings always encode
	}
	return out.String()
}

func word(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

// seq is a list of drafts by name, each under its comment.
func seq[T any](drafts map[string]T, comment func(T) string) *yaml.Node {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	names := make([]string, 0, len(drafts))
	for n := range drafts {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		item := &yaml.Node{}
		_ = item.Encode(drafts[n]) // plain maps and strings always encode
		item.HeadComment = comment(drafts[n])
		list.Content = append(list.Content, item)
	}
	return list
}
