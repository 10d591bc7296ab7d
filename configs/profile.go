package configs

import (
	"github.com/stoplog/stoplog"
	"github.com/stoplog/stoplog/configs/configv1"
	"github.com/stoplog/stoplog/proxy/connector"
)

// profileSpec takes a profile out of its message. The enums of both sides count alike but for what is translated here;
// TestProfileSpec holds them together.
func profileSpec(p *configv1.ConnectorProfile) connector.Spec {
	s := connector.Spec{
		Name:          p.GetName(),
		Shape:         shapes[p.GetShape()],
		Bodies:        bodies(p.GetBodies()),
		UnnamedClass:  classOf(p.GetUnnamedClass()),
		EffectHeaders: p.GetEffectHeaders(),
		LinkHeaders:   p.GetLinkHeaders(),
		Answers:       answerRules(p.GetAnswers()),
		ProviderIDs:   sources(p.GetProviderIds()),
		Cool:          sources(p.GetCool()),
		Idempotency:   idempotency(p.GetIdempotency()),
	}
	if p.GetAnswerForm() == configv1.ConnectorProfile_RPC {
		s.AnswerForm = connector.AnswerRPC
	}
	for _, o := range p.GetOperations() {
		s.Operations = append(s.Operations, operationSpec(o))
	}
	return s
}

func operationSpec(o *configv1.ConnectorProfile_Operation) connector.Operation {
	out := connector.Operation{
		Action:         o.GetAction(),
		Methods:        o.GetMethods(),
		Path:           o.GetPath(),
		RPCMethods:     o.GetRpcMethods(),
		Tools:          o.GetTools(),
		When:           conditions(o.GetWhen()),
		Class:          classOf(o.GetClass()),
		Bodies:         bodies(o.GetBodies()),
		RepeatedFields: o.GetRepeatedFields(),
		Recipients:     sources(o.GetRecipients()),
		Citations:      sources(o.GetCitations()),
		Thread:         sources(o.GetThread()),
		Key:            sources(o.GetKey()),
		Retry:          connector.Retry(o.GetRetry()),
		Idempotency:    idempotency(o.GetIdempotency()),
		Irreversible:   o.GetIrreversible(),
		Listen:         o.GetListen(),
		BreakerClass:   o.GetBreakerClass(),
		Answers:        answerRules(o.GetAnswers()),
		ProviderIDs:    sources(o.GetProviderIds()),
	}
	if a := o.GetAmount(); a != nil {
		out.Amount = &connector.Amount{Value: sourceSpec(a.GetValue()), Currency: sourceSpec(a.GetCurrency()), MinorUnits: a.GetMinorUnits()}
	}
	if m := o.GetModel(); m != nil {
		out.Model = &connector.Model{
			Name: sourceSpec(m.GetName()), MaxOutput: sources(m.GetMaxOutput()), Streams: m.GetStreams(),
			Choices: optional(m.GetChoices()), Stream: optional(m.GetStream()), Usage: usages[m.GetUsage()],
		}
	}
	return out
}

func sourceSpec(s *configv1.ConnectorProfile_Source) connector.Source {
	return connector.Source{
		JSON: s.GetJson(), Form: s.GetForm(), Field: s.GetField(), Query: s.GetQuery(), Header: s.GetHeader(),
		Path: s.GetPath(), Text: s.GetText(), Transforms: s.GetTransforms(), Required: s.GetRequired(), Raw: s.GetRaw(),
	}
}

func sources(list []*configv1.ConnectorProfile_Source) []connector.Source {
	var out []connector.Source
	for _, s := range list {
		out = append(out, sourceSpec(s))
	}
	return out
}

func optional(s *configv1.ConnectorProfile_Source) *connector.Source {
	if s == nil {
		return nil
	}
	out := sourceSpec(s)
	return &out
}

func conditions(list []*configv1.ConnectorProfile_Condition) []connector.Condition {
	var out []connector.Condition
	for _, c := range list {
		out = append(out, connector.Condition{
			Source: sourceSpec(c.GetSource()), Equals: c.GetEquals(), Prefixes: c.GetPrefixes(), Absent: c.GetAbsent(),
		})
	}
	return out
}

func answerRules(list []*configv1.ConnectorProfile_AnswerRule) []connector.AnswerRule {
	var out []connector.AnswerRule
	for _, r := range list {
		out = append(out, connector.AnswerRule{
			Status: r.GetStatus(), When: conditions(r.GetWhen()), Flag: r.GetFlag(), Final: r.GetFinal(),
			Outcome: outcomes[r.GetOutcome()], Health: healths[r.GetHealth()],
		})
	}
	return out
}

func idempotency(i *configv1.ConnectorProfile_Idempotency) *connector.Idempotency {
	if i == nil {
		return nil
	}
	return &connector.Idempotency{Header: i.GetHeader(), Window: i.GetWindow().AsDuration()}
}

func bodies(list []configv1.ConnectorProfile_Body) []connector.Body {
	var out []connector.Body
	for _, b := range list {
		out = append(out, connector.Body(b))
	}
	return out
}

func classOf(c configv1.Class) stoplog.Class { return stoplog.Class(c) }

var shapes = map[configv1.ConnectorProfile_Shape]connector.Shape{
	configv1.ConnectorProfile_OPENAI:    connector.ShapeOpenAI,
	configv1.ConnectorProfile_ANTHROPIC: connector.ShapeAnthropic,
	configv1.ConnectorProfile_GEMINI:    connector.ShapeGemini,
	configv1.ConnectorProfile_SLACK:     connector.ShapeSlack,
	configv1.ConnectorProfile_STRIPE:    connector.ShapeStripe,
	configv1.ConnectorProfile_GITHUB:    connector.ShapeGitHub,
	configv1.ConnectorProfile_MCP:       connector.ShapeMCP,
	configv1.ConnectorProfile_TWILIO:    connector.ShapeTwilio,
	configv1.ConnectorProfile_SENDGRID:  connector.ShapeSendGrid,
	configv1.ConnectorProfile_JIRA:      connector.ShapeJira,
}

var usages = map[configv1.ConnectorProfile_Model_Usage]connector.UsageFormat{
	configv1.ConnectorProfile_Model_OPENAI_CHAT:      connector.UsageOpenAIChat,
	configv1.ConnectorProfile_Model_OPENAI_RESPONSES: connector.UsageOpenAIResponses,
	configv1.ConnectorProfile_Model_ANTHROPIC:        connector.UsageAnthropic,
	configv1.ConnectorProfile_Model_GEMINI:           connector.UsageGemini,
	configv1.ConnectorProfile_Model_EMBEDDINGS:       connector.UsageEmbeddings,
}

var outcomes = map[configv1.ConnectorProfile_AnswerRule_Outcome]stoplog.Outcome{
	configv1.ConnectorProfile_AnswerRule_UNKNOWN:   stoplog.OutcomeUnknown,
	configv1.ConnectorProfile_AnswerRule_CONFIRMED: stoplog.OutcomeConfirmed,
	configv1.ConnectorProfile_AnswerRule_REJECTED:  stoplog.OutcomeRejected,
	configv1.ConnectorProfile_AnswerRule_NOT_SENT:  stoplog.OutcomeNotSent,
}

var healths = map[configv1.ConnectorProfile_AnswerRule_Health]stoplog.Health{
	configv1.ConnectorProfile_AnswerRule_NEUTRAL:   stoplog.HealthNeutral,
	configv1.ConnectorProfile_AnswerRule_GOOD:      stoplog.HealthGood,
	configv1.ConnectorProfile_AnswerRule_BAD:       stoplog.HealthBad,
	configv1.ConnectorProfile_AnswerRule_THROTTLED: stoplog.HealthThrottled,
}
