package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"bash, zsh or fish."`
}

func (completionCmd) Help() string {
	return `Examples:
  source <(stoplog completion bash)
  stoplog completion zsh > "${fpath[1]}/_stoplog"
  stoplog completion fish > ~/.config/fish/completions/stoplog.fish`
}

func (s completionCmd) Run(k *kong.Context, c *console) error {
	words := map[string][]string{}
	collect(words, k.Model.Node, "")
	text := ""
	switch s.Shell {
	case "bash":
		text = bash(words)
	case "zsh":
		text = "#compdef stoplog\nautoload -U +X bashcompinit && bashcompinit\n" + bash(words)
	default:
		text = fish(k.Model.Node)
	}
	_, err := fmt.Fprint(c.out, text)
	return err
}

// collect lists what may follow each command: its sub-commands, flags and the values of its arguments.
func collect(words map[string][]string, n *kong.Node, path string) {
	var next []string
	for _, child := range n.Children {
		if child.Hidden {
			continue
		}
		next = append(next, child.Name)
		collect(words, child, strings.TrimSpace(path+" "+child.Name))
	}
	for _, p := range n.Positional {
		next = append(next, values(p.Enum)...)
	}
	for _, f := range n.Flags {
		if !f.Hidden {
			next = append(next, "--"+f.Name)
		}
	}
	words[path] = next
}

// values of an enum, without the second spellings in another case and without the empty one.
func values(enum string) []string {
	var out []string
	seen := map[string]bool{}
	for _, v := range strings.Split(enum, ",") {
		k := strings.ReplaceAll(strings.ToUpper(v), "_", "-")
		if v != "" && !seen[k] {
			seen[k] = true
			out = append(out, v)
		}
	}
	return out
}

func bash(words map[string][]string) string {
	var b strings.Builder
	var paths []string
	for p := range words {
		if p != "" {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	b.WriteString(bashHead)
	for _, p := range paths {
		fmt.Fprintf(&b, "      %q) path=\"$next\" ;;\n", p)
	}
	b.WriteString("    esac\n  done\n  case \"$path\" in\n")
	for _, p := range append([]string{""}, paths...) {
		fmt.Fprintf(&b, "    %q) next=%q ;;\n", p, strings.Join(words[p], " "))
	}
	fmt.Fprintf(&b, "  esac\n  next=\"$next %s\"\n", strings.Join(flagsOnly(words[""]), " "))
	b.WriteString("  COMPREPLY=($(compgen -W \"$next\" -- \"$cur\"))\n  [[ ${#COMPREPLY[@]} -eq 0 ]] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F _stoplog stoplog\n")
	return b.String()
}

// bashHead walks the words so far; those that name a command lead into it.
const bashHead = `_stoplog() {
  local cur="${COMP_WORDS[COMP_CWORD]}" path="" w next
  for w in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$w" in -*) continue ;; esac
    next="${path:+$path }$w"
    case "$next" in
`

func flagsOnly(words []string) []string {
	var out []string
	for _, w := range words {
		if strings.HasPrefix(w, "--") {
			out = append(out, w)
		}
	}
	return out
}

func fish(root *kong.Node) string {
	var b strings.Builder
	var names []string
	for _, n := range root.Children {
		names = append(names, n.Name)
	}
	all := strings.Join(names, " ")
	b.WriteString("complete -c stoplog -n 'not __fish_seen_subcommand_from " + all + "' -f\n")
	for _, f := range root.Flags {
		fmt.Fprintf(&b, "complete -c stoplog -l %s -d %s\n", f.Name, quote(f.Help))
	}
	for _, n := range root.Children {
		fmt.Fprintf(&b, "complete -c stoplog -n 'not __fish_seen_subcommand_from %s' -a %s -d %s\n", all, n.Name, quote(n.Help))
		under := "__fish_seen_subcommand_from " + n.Name
		for _, f := range n.Flags {
			fmt.Fprintf(&b, "complete -c stoplog -n '%s' -l %s -d %s\n", under, f.Name, quote(f.Help))
		}
		for _, p := range n.Positional {
			for _, v := range values(p.Enum) {
				fmt.Fprintf(&b, "complete -c stoplog -n '%s' -a %s\n", under, v)
			}
		}
		for _, sub := range n.Children {
			fmt.Fprintf(&b, "complete -c stoplog -f -n '%s' -a %s -d %s\n", under, sub.Name, quote(sub.Help))
			inside := under + "; and __fish_seen_subcommand_from " + sub.Name
			for _, p := range sub.Positional {
				for _, v := range values(p.Enum) {
					fmt.Fprintf(&b, "complete -c stoplog -n '%s' -a %s\n", inside, v)
				}
			}
			for _, f := range sub.Flags {
				fmt.Fprintf(&b, "complete -c stoplog -n '%s' -l %s -d %s\n", inside, f.Name, quote(f.Help))
			}
		}
	}
	return b.String()
}

func quote(s string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "'", `\'`) + "'"
}
