package fakevendor

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// seeded is the number of issues in every repository: three pages of the default size.
const seeded = 75

func newGitHub(v *vendor) *http.ServeMux {
	g := &gitHub{v: v, repos: map[string]*gitHubRepo{}}
	m := http.NewServeMux()
	repo := "/repos/{owner}/{repo}"
	handle(m, "GET "+repo, g.in(g.repo))
	handle(m, "GET "+repo+"/issues", g.in(g.list))
	handle(m, "GET /repositories/{id}/issues", g.in(g.list)) // where the Link headers lead
	handle(m, "POST "+repo+"/issues", g.in(g.create("issue.create", "issues")))
	handle(m, "GET "+repo+"/issues/{number}", g.in(g.get))
	handle(m, "PATCH "+repo+"/issues/{number}", g.in(g.patch))
	handle(m, "GET "+repo+"/issues/{number}/comments", g.in(g.comments))
	handle(m, "POST "+repo+"/issues/{number}/comments", g.in(g.comment))
	handle(m, "GET "+repo+"/pulls", g.in(g.pulls))
	handle(m, "POST "+repo+"/pulls", g.in(g.create("pull.create", "pull")))
	handle(m, "GET "+repo+"/pulls/{number}", g.in(g.get))
	handle(m, "PUT "+repo+"/pulls/{number}/merge", g.in(g.merge))
	handle(m, "GET /user", func(x *exchange) { x.json(http.StatusOK, obj{"login": "agent", "id": 1}) })
	return m
}

type gitHub struct {
	v *vendor

	mu    sync.Mutex
	repos map[string]*gitHubRepo // by owner/name
	byID  []*gitHubRepo
}

// gitHubRepo numbers issues and pulls in one row, as the real one does. The lock of gitHub guards it.
type gitHubRepo struct {
	id       int
	name     string
	issues   []obj // oldest first
	comments map[int][]obj
}

func gitHubError(x *exchange, status int, message string) {
	x.json(status, obj{"message": message, "documentation_url": "https://docs.github.com/rest", "status": strconv.Itoa(status)})
}

// in finds the repository and takes the lock; writes need a credential.
func (g *gitHub) in(f func(*exchange, *gitHubRepo)) func(*exchange) {
	return func(x *exchange) {
		x.Header().Set("X-GitHub-Request-Id", g.v.id("GH"))
		x.Header().Set("X-RateLimit-Limit", "5000")
		x.Header().Set("X-RateLimit-Remaining", "4999")
		scheme, _, _ := strings.Cut(x.r.Header.Get("Authorization"), " ")
		if !x.credential() && !strings.EqualFold(scheme, "token") && x.r.Method != http.MethodGet {
			gitHubError(x, http.StatusUnauthorized, "Requires authentication")
			return
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		r := g.find(x)
		if r == nil {
			gitHubError(x, http.StatusNotFound, "Not Found")
			return
		}
		f(x, r)
	}
}

// find knows every repository but those called "missing".
func (g *gitHub) find(x *exchange) *gitHubRepo {
	if id := x.r.PathValue("id"); id != "" {
		n, err := strconv.Atoi(id)
		if err != nil || n < 1 || n > len(g.byID) {
			return nil
		}
		return g.byID[n-1]
	}
	name := x.r.PathValue("owner") + "/" + x.r.PathValue("repo")
	if strings.HasSuffix(name, "/missing") {
		return nil
	}
	r, ok := g.repos[name]
	if !ok {
		r = &gitHubRepo{id: len(g.byID) + 1, name: name, comments: map[int][]obj{}}
		for range seeded {
			r.add(x, obj{"title": fmt.Sprintf("Issue %d", len(r.issues)+1), "body": "seeded"}, "issues")
		}
		g.repos[name] = r
		g.byID = append(g.byID, r)
	}
	return r
}

// add numbers and stores an issue or a pull; kind is its word in a web address.
func (r *gitHubRepo) add(x *exchange, in obj, kind string) obj {
	n := len(r.issues) + 1
	o := obj{"labels": []any{}, "body": nil}
	maps.Copy(o, in)
	maps.Copy(o, obj{
		"id": 1000 + n, "number": n, "state": "open", "user": obj{"login": "agent"},
		"url":        fmt.Sprintf("%s/repos/%s/issues/%d", x.base(), r.name, n),
		"html_url":   fmt.Sprintf("https://github.com/%s/%s/%d", r.name, kind, n),
		"created_at": "2026-01-01T00:00:00Z",
	})
	if kind == "pull" {
		o["pull_request"] = obj{"url": fmt.Sprintf("%s/repos/%s/pulls/%d", x.base(), r.name, n)}
	}
	r.issues = append(r.issues, o)
	return o
}

func (r *gitHubRepo) number(x *exchange) int {
	n, err := strconv.Atoi(x.r.PathValue("number"))
	if err != nil || n < 1 || n > len(r.issues) {
		return 0
	}
	return n
}

func (g *gitHub) repo(x *exchange, r *gitHubRepo) {
	x.json(http.StatusOK, obj{"id": r.id, "full_name": r.name, "default_branch": "main", "open_issues_count": len(r.issues)})
}

// list is newest first, in pages, with absolute links to the path by the repository's number.
func (g *gitHub) list(x *exchange, r *gitHubRepo) {
	page, per := positive(x.query("page"), 1), min(positive(x.query("per_page"), 30), 100)
	all := slices.Clone(r.issues)
	slices.Reverse(all)
	last := max(1, (len(all)+per-1)/per)
	link := func(n int, rel string) string {
		q := x.r.URL.Query()
		q.Set("page", strconv.Itoa(n))
		return fmt.Sprintf(`<%s/repositories/%d/issues?%s>; rel="%s"`, x.base(), r.id, q.Encode(), rel)
	}
	var links []string
	if page > 1 {
		links = append(links, link(page-1, "prev"), link(1, "first"))
	}
	if page < last {
		links = append(links, link(page+1, "next"), link(last, "last"))
	}
	if len(links) > 0 {
		x.Header().Set("Link", strings.Join(links, ", "))
	}
	from := min((page-1)*per, len(all))
	x.json(http.StatusOK, all[from:min(from+per, len(all))])
}

func positive(s string, otherwise int) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return otherwise
	}
	return n
}

func (g *gitHub) pulls(x *exchange, r *gitHubRepo) {
	out := []obj{}
	for _, o := range r.issues {
		if o["pull_request"] != nil {
			out = append(out, o)
		}
	}
	x.json(http.StatusOK, out)
}

func (g *gitHub) create(action, kind string) func(*exchange, *gitHubRepo) {
	return func(x *exchange, r *gitHubRepo) {
		var in obj
		if !x.decode(&in) {
			gitHubError(x, http.StatusBadRequest, "Problems parsing JSON")
			return
		}
		if t, ok := in["title"].(string); !ok || t == "" {
			gitHubError(x, http.StatusUnprocessableEntity, "Validation Failed")
			return
		}
		o := r.add(x, in, kind)
		x.effect(action, fmt.Sprint(o["number"]))
		x.Header().Set("Location", o["url"].(string))
		x.json(http.StatusCreated, o)
	}
}

func (g *gitHub) get(x *exchange, r *gitHubRepo) {
	n := r.number(x)
	if n == 0 {
		gitHubError(x, http.StatusNotFound, "Not Found")
		return
	}
	x.json(http.StatusOK, r.issues[n-1])
}

func (g *gitHub) patch(x *exchange, r *gitHubRepo) {
	var in obj
	n := r.number(x)
	if n == 0 {
		gitHubError(x, http.StatusNotFound, "Not Found")
		return
	}
	if !x.decode(&in) {
		gitHubError(x, http.StatusBadRequest, "Problems parsing JSON")
		return
	}
	for _, k := range []string{"title", "body", "state", "labels", "assignees"} {
		if v, ok := in[k]; ok {
			r.issues[n-1][k] = v
		}
	}
	x.effect("issue.update", strconv.Itoa(n))
	x.json(http.StatusOK, r.issues[n-1])
}

func (g *gitHub) comments(x *exchange, r *gitHubRepo) {
	list := r.comments[r.number(x)]
	if list == nil {
		list = []obj{}
	}
	x.json(http.StatusOK, list)
}

func (g *gitHub) comment(x *exchange, r *gitHubRepo) {
	var in struct {
		Body string `json:"body"`
	}
	n := r.number(x)
	if n == 0 {
		gitHubError(x, http.StatusNotFound, "Not Found")
		return
	}
	if !x.decode(&in) || in.Body == "" {
		gitHubError(x, http.StatusUnprocessableEntity, "Validation Failed")
		return
	}
	id := g.v.nextID()
	c := obj{
		"id": id, "body": in.Body, "user": obj{"login": "agent"},
		"url": fmt.Sprintf("%s/repos/%s/issues/comments/%d", x.base(), r.name, id),
	}
	r.comments[n] = append(r.comments[n], c)
	x.effect("issue.comment", fmt.Sprint(id))
	x.json(http.StatusCreated, c)
}

func (g *gitHub) merge(x *exchange, r *gitHubRepo) {
	n := r.number(x)
	if n == 0 || r.issues[n-1]["pull_request"] == nil {
		gitHubError(x, http.StatusNotFound, "Not Found")
		return
	}
	if r.issues[n-1]["state"] == "closed" {
		gitHubError(x, http.StatusMethodNotAllowed, "Pull Request is not mergeable")
		return
	}
	r.issues[n-1]["state"] = "closed"
	x.effect("pull.merge", strconv.Itoa(n))
	x.json(http.StatusOK, obj{"sha": strings.Repeat("0", 40), "merged": true, "message": "Pull Request successfully merged"})
}
