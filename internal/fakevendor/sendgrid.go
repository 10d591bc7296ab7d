package fakevendor

import "net/http"

func newSendGrid(v *vendor) *http.ServeMux {
	m := http.NewServeMux()
	handle(m, "POST /v3/mail/send", func(x *exchange) { sendGridMail(v, x) })
	return m
}

func sendGridError(x *exchange, status int, field, message string) {
	x.json(status, obj{"errors": []obj{{"message": message, "field": field, "help": nil}}})
}

// sendGridMail answers 202 with no body: the id is in a header.
func sendGridMail(v *vendor, x *exchange) {
	var q struct {
		Personalizations []struct {
			To []obj `json:"to"`
		} `json:"personalizations"`
		From    obj    `json:"from"`
		Subject string `json:"subject"`
		Content []obj  `json:"content"`
	}
	switch {
	case x.bearer() == "":
		sendGridError(x, http.StatusUnauthorized, "", "The provided authorization grant is invalid, expired, or revoked")
	case !x.decode(&q):
		sendGridError(x, http.StatusBadRequest, "", "Bad Request")
	case len(q.Personalizations) == 0 || len(q.Personalizations[0].To) == 0:
		sendGridError(x, http.StatusBadRequest, "personalizations", "The personalizations field is required and must have at least one personalization.")
	case q.From["email"] == nil:
		sendGridError(x, http.StatusBadRequest, "from.email", "The from email does not contain a valid address.")
	case len(q.Content) == 0:
		sendGridError(x, http.StatusBadRequest, "content", "Unless a valid template_id is provided, the content parameter is required.")
	default:
		id := v.id("")
		x.effect("mail.send", id)
		x.Header().Set("X-Message-Id", id)
		x.Header().Set("Content-Length", "0")
		x.WriteHeader(http.StatusAccepted)
	}
}
