package configs

import (
	"errors"
	"regexp"

	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

func compileProfile(p *configv1.ConnectorProfile) (*connector.Profile, error) {
	return connector.Compile(profileSpec(p))
}

var profileField = regexp.MustCompile(`^([a-z_]+(?:\[[0-9]+\])?(?:\.[a-z_]+(?:\[[0-9]+\])?)*): `)

// profileProblem takes the field and the text out of an error of the profile's compiler: "operations[3].path: …".
func profileProblem(err error) (string, string) {
	text := err.Error()
	m := profileField.FindStringSubmatch(text)
	if m == nil {
		return "", text
	}
	return m[1], text[len(m[0]):]
}

// unjoinAll are the single errors of a joined one.
func unjoinAll(err error) []error {
	if err == nil {
		return nil
	}
	var j interface{ Unwrap() []error }
	if errors.As(err, &j) {
		return j.Unwrap()
	}
	return []error{err}
}
