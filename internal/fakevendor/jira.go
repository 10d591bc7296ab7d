package fakevendor

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"sync"
)

func newJira(v *vendor) *http.ServeMux {
	j := &jira{v: v, comments: map[string][]obj{}}
	m := http.NewServeMux()
	handle(m, "POST /rest/api/3/issue", j.authed(j.create))
	handle(m, "GET /rest/api/3/issue/{key}", j.authed(j.get))
	handle(m, "PUT /rest/api/3/issue/{key}", j.authed(j.edit))
	handle(m, "POST /rest/api/3/issue/{key}/transitions", j.authed(j.transition))
	handle(m, "POST /rest/api/3/issue/{key}/comment", j.authed(j.comment))
	handle(m, "GET /rest/api/3/issue/{key}/comment", j.authed(j.list))
	for _, p := range []string{"search", "search/jql"} { // the newer path answers both methods, too
		handle(m, "GET /rest/api/3/"+p, j.authed(j.search))
		handle(m, "POST /rest/api/3/"+p, j.authed(j.search))
	}
	return m
}

type jira struct {
	v *vendor

	mu       sync.Mutex // held by authed
	issues   []obj
	comments map[string][]obj
}

func jiraError(x *exchange, status int, message string) {
	x.json(status, obj{"errorMessages": []string{message}, "errors": obj{}})
}

func (j *jira) authed(f func(*exchange)) func(*exchange) {
	return func(x *exchange) {
		if !x.credential() {
			jiraError(x, http.StatusUnauthorized, "You do not have the permission to see the specified issue.")
			return
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		f(x)
	}
}

// issue finds by key or id and answers 404 itself.
func (j *jira) issue(x *exchange) obj {
	key := x.r.PathValue("key")
	i := slices.IndexFunc(j.issues, func(o obj) bool { return o["key"] == key || o["id"] == key })
	if i < 0 {
		jiraError(x, http.StatusNotFound, "Issue does not exist or you do not have permission to see it.")
		return nil
	}
	return j.issues[i]
}

func (j *jira) create(x *exchange) {
	var q struct {
		Fields obj `json:"fields"`
	}
	if !x.decode(&q) || q.Fields["summary"] == nil || q.Fields["project"] == nil {
		x.json(http.StatusBadRequest, obj{"errorMessages": []string{}, "errors": obj{"summary": "You must specify a summary of the issue."}})
		return
	}
	project := "FAKE"
	if p, _ := q.Fields["project"].(obj); p["key"] != nil {
		project = fmt.Sprint(p["key"])
	}
	n := len(j.issues) + 1
	id := fmt.Sprint(10000 + n)
	o := obj{"id": id, "key": fmt.Sprintf("%s-%d", project, n), "self": x.base() + "/rest/api/3/issue/" + id, "fields": q.Fields}
	j.issues = append(j.issues, o)
	x.effect("issue.create", o["key"].(string))
	x.json(http.StatusCreated, obj{"id": o["id"], "key": o["key"], "self": o["self"]})
}

func (j *jira) get(x *exchange) {
	if o := j.issue(x); o != nil {
		x.json(http.StatusOK, o)
	}
}

func (j *jira) edit(x *exchange) {
	var q struct {
		Fields obj `json:"fields"`
	}
	o := j.issue(x)
	if o == nil {
		return
	}
	if !x.decode(&q) {
		jiraError(x, http.StatusBadRequest, "Invalid request payload.")
		return
	}
	maps.Copy(o["fields"].(obj), q.Fields)
	x.effect("issue.edit", o["key"].(string))
	x.WriteHeader(http.StatusNoContent)
}

func (j *jira) transition(x *exchange) {
	if o := j.issue(x); o != nil {
		x.effect("issue.transition", o["key"].(string))
		x.WriteHeader(http.StatusNoContent)
	}
}

func (j *jira) comment(x *exchange) {
	var q obj
	o := j.issue(x)
	if o == nil {
		return
	}
	if !x.decode(&q) || q["body"] == nil {
		jiraError(x, http.StatusBadRequest, "Comment body can not be empty!")
		return
	}
	key := o["key"].(string)
	id := fmt.Sprint(j.v.nextID())
	c := obj{"id": id, "self": o["self"].(string) + "/comment/" + id, "body": q["body"]}
	j.comments[key] = append(j.comments[key], c)
	x.effect("issue.comment", id)
	x.json(http.StatusCreated, c)
}

func (j *jira) list(x *exchange) {
	o := j.issue(x)
	if o == nil {
		return
	}
	c := j.comments[o["key"].(string)]
	if c == nil {
		c = []obj{}
	}
	x.json(http.StatusOK, obj{"comments": c, "total": len(c), "startAt": 0, "maxResults": 50})
}

var jiraProject = regexp.MustCompile(`(?i)project\s*=\s*"?([A-Z0-9]+)"?`)

// search knows a project clause and nothing else of the language; a POST search reads and changes nothing.
func (j *jira) search(x *exchange) {
	jql := x.query("jql")
	if x.r.Method == http.MethodPost {
		var q struct {
			JQL string `json:"jql"`
		}
		if !x.decode(&q) {
			jiraError(x, http.StatusBadRequest, "Invalid request payload.")
			return
		}
		jql = q.JQL
	}
	found := []obj{}
	p := jiraProject.FindStringSubmatch(jql)
	for _, o := range j.issues {
		if f, _ := o["fields"].(obj)["project"].(obj); p == nil || f["key"] == p[1] {
			found = append(found, o)
		}
	}
	x.json(http.StatusOK, obj{"issues": found, "total": len(found), "startAt": 0, "maxResults": 50, "isLast": true})
}
