package frame

import "golang.org/x/mod/sumdb/tlog"

// Tree is the right edge of an RFC 6962 tree: the roots of its complete subtrees, largest first. That is all that adding
// leaves and naming the root needs, so a log of any length costs 32 bytes per doubling. The zero Tree is empty.
type Tree struct {
	size int64
	edge []tlog.Hash
}

// Size is the number of leaves.
func (t *Tree) Size() int64 { return t.size }

// Add appends a leaf by its hash.
func (t *Tree) Add(leaf tlog.Hash) {
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.edge) - 1
		leaf = tlog.NodeHash(t.edge[last], leaf)
		t.edge = t.edge[:last]
	}
	t.edge = append(t.edge, leaf)
	t.size++
}

// Root is the tree's hash.
func (t *Tree) Root() tlog.Hash {
	if t.size == 0 {
		h, _ := tlog.TreeHash(0, nil)
		return h
	}
	i := len(t.edge) - 1
	h := t.edge[i]
	for i--; i >= 0; i-- {
		h = tlog.NodeHash(t.edge[i], h)
	}
	return h
}

// Clone is an independent copy.
func (t *Tree) Clone() Tree {
	return Tree{size: t.size, edge: append([]tlog.Hash(nil), t.edge...)}
}
