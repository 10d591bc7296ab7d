package configs

import (
	"go.yaml.in/yaml/v3"
)

// maxAliased bounds the values that all aliases of a file stand for together: a short file cannot mean a huge one.
const maxAliased = 100_000

// expand puts copies of what aliases stand for in their places, since protoyaml knows no aliases. It returns the text of the
// result and, if there was an alias, where each place in that text is in the file.
func (d *document) expand(root *yaml.Node, data []byte) ([]byte, map[place]place) {
	x := expander{d: d}
	x.in(root)
	if len(d.errs) > 0 || x.aliases == 0 {
		return data, nil
	}
	var again yaml.Node
	text, err := yaml.Marshal(root)
	if err == nil {
		err = yaml.Unmarshal(text, &again)
	}
	moved := map[place]place{}
	if err != nil || len(again.Content) != 1 || !pair(root, again.Content[0], moved) {
		d.tell("", at(root), "its aliases cannot be resolved", "write the sections out")
	}
	return text, moved
}

type expander struct {
	d       *document
	aliases int
	copied  int
}

// in expands below n, in the order of the file: what an alias stands for comes before it and is expanded already.
func (x *expander) in(n *yaml.Node) {
	n.Anchor, n.HeadComment, n.LineComment, n.FootComment = "", "", "", ""
	for i, c := range n.Content {
		if c.Kind != yaml.AliasNode {
			x.in(c)
			continue
		}
		x.aliases++
		n.Content[i] = x.copy(c.Alias)
		if x.copied > maxAliased {
			x.d.tell("", at(c), "the aliases stand for too much", "write the sections out, or split the file")
			return
		}
	}
}

func (x *expander) copy(n *yaml.Node) *yaml.Node {
	x.copied++
	c := *n
	c.Anchor = ""
	c.Content = nil
	for _, child := range n.Content {
		if child.Kind == yaml.AliasNode {
			x.d.tell("", at(child), "an alias within what it stands for", "write the section out")
			return &c
		}
		if x.copied > maxAliased {
			return &c
		}
		c.Content = append(c.Content, x.copy(child))
	}
	return &c
}

// pair notes where each value of a tree that was written and read again stood at first; false if it is not the same tree.
func pair(first, again *yaml.Node, moved map[place]place) bool {
	if first.Kind != again.Kind || first.Value != again.Value || first.ShortTag() != again.ShortTag() || len(first.Content) != len(again.Content) {
		return false
	}
	moved[at(again)] = at(first)
	for i := range first.Content {
		if !pair(first.Content[i], again.Content[i], moved) {
			return false
		}
	}
	return true
}
