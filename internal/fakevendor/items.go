package fakevendor

import (
	"fmt"
	"maps"
	"net/http"
	"sync"
)

// keepItems bounds a collection, so that a playground that runs for weeks stays small.
const keepItems = 1000

// items is a collection of JSON objects: the generic API and the playground's records.
type items struct {
	v    *vendor
	path string // for example "/items"
	noun string // for example "item"

	mu   sync.Mutex
	list []obj // oldest first
}

func (c *items) routes(m *http.ServeMux) {
	handle(m, "GET "+c.path, c.all)
	handle(m, "POST "+c.path, c.create)
	handle(m, "GET "+c.path+"/{id}", c.one(func(x *exchange, i int) { x.json(http.StatusOK, c.list[i]) }))
	handle(m, "PUT "+c.path+"/{id}", c.one(c.put))
	handle(m, "PATCH "+c.path+"/{id}", c.one(c.patch))
	handle(m, "DELETE "+c.path+"/{id}", c.one(c.remove))
}

func (c *items) all(x *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x.json(http.StatusOK, obj{c.path[1:]: append([]obj{}, c.list...)})
}

func (c *items) create(x *exchange) {
	var in obj
	if !x.decode(&in) || in == nil {
		x.json(http.StatusBadRequest, obj{"error": "want a JSON object"})
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	id := fmt.Sprint(c.v.nextID())
	in["id"] = id
	c.list = last(append(c.list, in), keepItems)
	x.effect(c.noun+".create", id)
	x.Header().Set("Location", x.base()+c.path+"/"+id)
	x.json(http.StatusCreated, in)
}

// one finds the item, holding the lock for f.
func (c *items) one(f func(*exchange, int)) func(*exchange) {
	return func(x *exchange) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, o := range c.list {
			if o["id"] == x.r.PathValue("id") {
				f(x, i)
				return
			}
		}
		x.json(http.StatusNotFound, obj{"error": "no such " + c.noun})
	}
}

func (c *items) put(x *exchange, i int) { c.change(x, i, obj{}, "replace") }

func (c *items) patch(x *exchange, i int) { c.change(x, i, c.list[i], "update") }

func (c *items) change(x *exchange, i int, from obj, verb string) {
	var in obj
	if !x.decode(&in) || in == nil {
		x.json(http.StatusBadRequest, obj{"error": "want a JSON object"})
		return
	}
	id := c.list[i]["id"].(string)
	o := maps.Clone(from)
	maps.Copy(o, in)
	o["id"] = id
	c.list[i] = o
	x.effect(c.noun+"."+verb, id)
	x.json(http.StatusOK, o)
}

func (c *items) remove(x *exchange, i int) {
	id := c.list[i]["id"].(string)
	c.list = append(c.list[:i:i], c.list[i+1:]...)
	x.effect(c.noun+".delete", id)
	x.WriteHeader(http.StatusNoContent)
}

func newGeneric(v *vendor) *http.ServeMux {
	m := http.NewServeMux()
	(&items{v: v, path: "/items", noun: "item"}).routes(m)
	return m
}
