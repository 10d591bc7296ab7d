package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

// paths lists all commands, groups included.
func paths(n *kong.Node, prefix []string) [][]string {
	all := [][]string{prefix}
	for _, c := range n.Children {
		all = append(all, paths(c, append(append([]string{}, prefix...), c.Name))...)
	}
	return all
}

func model(t *testing.T) *kong.Node {
	t.Helper()
	k, err := newParser(&cli{}, &console{})
	if err != nil {
		t.Fatal(err)
	}
	return k.Model.Node
}

// The help texts are part of the interface: a change is seen in review.
func TestHelp(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	for _, v := range []string{"STOPLOG_DATA", "STOPLOG_SOCKET", "STOPLOG_SERVER", "STOPLOG_TOKEN_FILE"} {
		t.Setenv(v, "")
		_ = os.Unsetenv(v)
	}
	for _, p := range paths(model(t), nil) {
		r := command(t, append(append([]string{}, p...), "--help")...)
		r.want(t, exitOK, "Usage: stoplog")
		name := strings.Join(append([]string{"stoplog"}, p...), "-") + ".txt"
		golden(t, filepath.Join("help", name), r.out)
	}
}

// docs/cli.md names every command and every exit code.
func TestDocumentNamesEveryCommand(t *testing.T) {
	b, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths(model(t), nil)[1:] {
		if !strings.Contains(string(b), "`"+strings.Join(p, " ")) && !strings.Contains(string(b), "stoplog "+strings.Join(p, " ")) {
			t.Errorf("docs/cli.md does not name %v", p)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{},
		{"nothing"},
		{"level", "raise"},
		{"level", "raise", "L9"},
		{"level", "raise", "L0"},
		{"level", "lower", "L0"},
		{"holds", "release", "--class", "x"},
		{"receipts", "tail", "--verdict", "maybe"},
		{"completion", "csh"},
		{"up", "--bootstrap", "/none"},
		{"config", "profile", "nope"},
		{"receipts", "show"},
	} {
		r := command(t, args...)
		if r.code != exitUsage || r.err == "" {
			t.Errorf("%v: exit code %d, %s%s", args, r.code, r.out, r.err)
		}
	}
	r := command(t, "--json", "level", "raise", "L9")
	e := decode[map[string]any](t, r.err)
	if e["exit"] != float64(exitUsage) || e["error"] == "" {
		t.Errorf("%s", r.err)
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		r := command(t, "completion", shell)
		r.want(t, exitOK, "release", "half-open", "dry-run")
		bin, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		check := exec.CommandContext(t.Context(), bin, "-n")
		check.Stdin = strings.NewReader(r.out)
		out, err := check.CombinedOutput()
		if err != nil {
			t.Errorf("%s cannot read it: %v %s", shell, err, out)
		}
	}
}

// What bash offers after some words.
func TestBashCompletes(t *testing.T) {
	bin, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	script := command(t, "completion", "bash").out
	for words, want := range map[string]string{
		"stoplog le":                   "level learn",
		"stoplog level ":               "get raise lower",
		"stoplog level raise ":         "L1 L2 L3 --scope",
		"stoplog --json holds rel":     "release",
		"stoplog holds release --dry":  "--dry-run",
		"stoplog breaker force slack ": "open half-open",
		"stoplog level lower --rea":    "--reason",
	} {
		list := strings.Split(words, " ")
		c := exec.CommandContext(t.Context(), bin, "--norc", "-c", script+`
COMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _stoplog; echo "${COMPREPLY[*]}"`, "bash")
		c.Args = append(c.Args, list...)
		out, err := c.CombinedOutput()
		got := " " + strings.TrimSpace(string(out)) + " "
		for _, w := range strings.Fields(want) {
			if err != nil || !strings.Contains(got, " "+w+" ") {
				t.Errorf("%q: %s is not in %s %v", words, w, got, err)
			}
		}
	}
}
