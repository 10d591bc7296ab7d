package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs"
	"github.com/stoplog/stoplog/internal/operator"
)

// Exit codes. They are documented in docs/cli.md and do not change.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2   // bad arguments, or a bad file
	exitRefused     = 3   // policy said no: the level stands, the hold stays held
	exitUnreachable = 4   // no sidecar answers
	exitUnverified  = 5   // the receipts do not prove what they should
	exitInterrupted = 130 // Ctrl-C
)

// coded is an error with an exit code of its own.
type coded struct {
	code int
	err  error
}

func (e *coded) Error() string { return e.err.Error() }
func (e *coded) Unwrap() error { return e.err }

func usage(err error) error      { return &coded{exitUsage, err} }
func refused(err error) error    { return &coded{exitRefused, err} }
func unverified(err error) error { return &coded{exitUnverified, err} }

// told is an error that the command has printed already, as its output.
type told struct{ code int }

func (told) Error() string { return "" }

func exitCode(err error) int {
	var c *coded
	var t told
	var p *operator.Problem
	var list configs.Errors
	var one *configs.Error
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &t):
		return t.code
	case errors.As(err, &c):
		return c.code
	case errors.Is(err, operator.ErrUnreachable):
		return exitUnreachable
	case errors.As(err, &list), errors.As(err, &one):
		return exitUsage
	case errors.As(err, &p):
		switch p.Status {
		case http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
			return exitUsage
		case http.StatusForbidden, http.StatusConflict:
			return exitRefused
		}
	}
	return exitFailed
}

// fail tells the error, in words or as one JSON object, and gives the exit code.
func (c *console) fail(cmd *cli, err error) int {
	code := exitCode(err)
	var t told
	if err == nil || errors.As(err, &t) {
		return code
	}
	if cmd.JSON {
		_ = json.NewEncoder(c.err).Encode(map[string]any{"error": err.Error(), "reason": reasonOf(err), "exit": code})
		return code
	}
	fmt.Fprintln(c.err, "stoplog:", err)
	if code == exitUnreachable {
		fmt.Fprintln(c.err, "Is `stoplog up` running? If its data directory is not the default one, name it with --data or $STOPLOG_DATA.")
	}
	return code
}

func reasonOf(err error) string {
	var p *operator.Problem
	if errors.As(err, &p) {
		return p.Reason
	}
	var e *stoplog.Error
	if errors.As(err, &e) {
		return string(e.Reason)
	}
	return ""
}
