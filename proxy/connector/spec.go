package connector

import (
	"time"

	"github.com/stoplog/stoplog"
)

// Spec is a connector profile in plain Go. Its fields are those of stoplog.config.v1.ConnectorProfile.
type Spec struct {
	Name          string
	Shape         Shape
	Bodies        []Body        // forms of request bodies that the vendor reads; empty = JSON
	UnnamedClass  stoplog.Class // ClassWrite (also when unspecified) or ClassMessage
	Operations    []Operation   // first match wins
	EffectHeaders []string      // request headers that belong to the digest, besides Content-Type
	LinkHeaders   []string      // answer headers with URLs to map, besides Link, Location and Content-Location
	Answers       []AnswerRule
	AnswerForm    AnswerForm
	ProviderIDs   []Source // of answers; first found
	Cool          []Source // of answers; longest
	Idempotency   *Idempotency
}

// Operation names a group of requests and says what they would do.
type Operation struct {
	Action         string
	Methods        []string // empty = any
	Path           string   // template
	RPCMethods     []string // exact, or a prefix and "*"; "$response" is a client's answer to the server
	Tools          []string // MCP tools, exact, or a prefix and "*"
	When           []Condition
	Class          stoplog.Class
	Bodies         []Body
	RepeatedFields []string
	Recipients     []Source
	Citations      []Source
	Thread         []Source
	Amount         *Amount
	Model          *Model
	Key            []Source
	Retry          Retry
	Idempotency    *Idempotency
	Irreversible   bool
	Listen         bool
	BreakerClass   string
	Answers        []AnswerRule
	ProviderIDs    []Source
}

// Source says where values stand. Exactly one of the places is set.
type Source struct {
	JSON   string // JSON Pointer; "*" stands for every element or member
	Form   string // field of a form or multipart body; one "*" stands for any text
	Field  string // argument in the query or in a body of any form
	Query  string
	Header string
	Path   string // variable of the path template
	Text   string // the text itself, with {variables} of the path template

	Transforms []string
	Required   bool // refuse the request when nothing stands there
	Raw        bool // take arrays and objects as they are written
}

// Condition is a test of a source. Without Equals, Prefixes and Absent it asks for presence.
type Condition struct {
	Source   Source
	Equals   []string
	Prefixes []string
	Absent   bool
}

// Amount is the money that an effect moves.
type Amount struct {
	Value      Source
	Currency   Source
	MinorUnits bool // Value counts cents
}

// Model says how a model call is read.
type Model struct {
	Name      Source
	MaxOutput []Source // largest
	Choices   *Source  // multiplies MaxOutput
	Stream    *Source  // "true" = streamed
	Streams   bool     // always streamed
	Usage     UsageFormat
}

// Idempotency is how a vendor recognises a repeated effect.
type Idempotency struct {
	Header string
	Window time.Duration // 0 = unknown
}

// AnswerRule says what an answer means. All its tests must hold.
type AnswerRule struct {
	Status  []string // "200", "4xx"; empty = any
	When    []Condition
	Outcome stoplog.Outcome
	Health  stoplog.Health
	Flag    string
	Final   bool // never retried
}

// Body is the form of a request body.
type Body uint8

const (
	BodyNone Body = iota
	BodyJSON
	BodyForm
	BodyMultipart
	BodyJSONRPC
	BodyOpaque // bytes that are not read
)

var bodyNames = [...]string{"none", "JSON", "a form", "multipart form data", "one JSON-RPC object", "opaque"}

func (b Body) String() string { return bodyNames[min(int(b), len(bodyNames)-1)] }

// AnswerForm is how an answer's body is put together.
type AnswerForm uint8

const (
	AnswerDocument AnswerForm = iota // one JSON document, if any
	AnswerRPC                        // a JSON-RPC answer: the document, or one event of an event stream
)

// Retry says what a second transmission would do.
type Retry uint8

const (
	RetryDefault Retry = iota // safe for reads and model calls, keyed with an idempotency header, otherwise never
	RetryNever
	RetryKeyed
	RetrySafe
)

// UsageFormat is where a provider's answer carries the tokens it used.
type UsageFormat uint8

const (
	UsageNone UsageFormat = iota
	UsageOpenAIChat
	UsageOpenAIResponses
	UsageAnthropic
	UsageGemini
	UsageEmbeddings
)

// Shape is how a refusal looks to the vendor's SDK.
type Shape uint8

const (
	ShapeProblem Shape = iota // problem+json with an error object
	ShapeOpenAI
	ShapeAnthropic
	ShapeGemini
	ShapeSlack
	ShapeStripe
	ShapeGitHub
	ShapeMCP
	ShapeTwilio
	ShapeSendGrid
	ShapeJira
)

var shapeNames = [...]string{
	"problem", "openai", "anthropic", "gemini", "slack", "stripe", "github", "mcp", "twilio", "sendgrid", "jira",
}

func (s Shape) String() string {
	if int(s) < len(shapeNames) {
		return shapeNames[s]
	}
	return shapeNames[0]
}
