// The client: one request to the broker, for the commands. The hook has a faster way of its own (rawhttp.go) and comes
// here only for https and proxies.
//
// The token travels in the Authorization header and nowhere else. A redirect is not followed: it would carry the token
// to wherever an answer points.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	answerMax      = 64 << 20 // bytes of an answer that are read at most
	connectTimeout = 5 * time.Second
	answerTimeout  = 30 * time.Second // of a request that does not ask the broker to wait
	whyMax         = 200              // letters of the library's words on why there was no answer, which may quote one
)

type client struct {
	base    string
	token   string
	timeout time.Duration // of a whole request; a command that asks the broker to wait adds that to it
	http    *http.Client
}

// newClient is a client for what the settings say; the problem says what is missing in them.
func newClient(from *settings) (*client, *problem) {
	if len(from.broken) > 0 {
		return nil, &problem{code: "CONFIG_BROKEN", message: from.broken[0],
			hint: "Mend it, or take it away.", exit: exitInvalid}
	}
	if from.url.value == "" {
		return nil, unreachable("No broker is known here.", "Start one with `inboxd serve`, or set INBOX_URL.")
	}
	address, err := url.Parse(from.url.value)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return nil, &problem{code: "CONFIG_BROKEN",
			message: "The broker's address from " + from.url.from + " is not one: " + from.url.value,
			hint:    "It looks like http://127.0.0.1:8420.", exit: exitInvalid}
	}
	if from.token.value == "" && from.withheld != "" {
		return nil, &problem{code: "TOKEN_WITHHELD", message: from.withheld,
			hint: "Name the address with --url or INBOX_URL if that is meant.", exit: exitDenied}
	}
	if strings.ContainsFunc(from.token.value, func(letter rune) bool { return letter <= ' ' || letter > '~' }) {
		return nil, &problem{code: "CONFIG_BROKEN", message: "The token from " + from.token.from + " is not a token.",
			hint: "It has no spaces and only plain letters.", exit: exitInvalid}
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: connectTimeout,
		ForceAttemptHTTP2:   false,
		MaxIdleConnsPerHost: 4,
	}
	if from.caFile.value != "" {
		authorities, problem := readAuthorities(from.caFile)
		if problem != nil {
			return nil, problem
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	}
	return &client{
		base:    from.url.value,
		token:   from.token.value,
		timeout: answerTimeout,
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

func readAuthorities(file setting) (*x509.CertPool, *problem) {
	broken := &problem{code: "CONFIG_BROKEN", exit: exitInvalid,
		message: "The authorities in " + file.value + " (from " + file.from + ") cannot be read.",
		hint:    "It must be a PEM file with certificates."}
	text, err := os.ReadFile(file.value)
	if err != nil {
		return nil, broken
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, broken
	}
	return pool, nil
}

// do makes one request and reads its whole answer. The body is sent as JSON; nil sends none, []byte goes as it is.
// Any status is an answer: err is only for no answer at all, and then a *problem with a hint.
func (c *client) do(method, path string, body any) (status int, answer []byte, err error) {
	response, err := c.open(method, path, body, nil)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(response.Body, answerMax+1))
	if err != nil {
		return 0, nil, unreachable("The broker's answer broke off.", "Nothing is lost: try again with the same ids.")
	}
	if len(answer) > answerMax {
		return 0, nil, unreachable("The broker's answer is too large.", "Ask for less.")
	}
	return response.StatusCode, answer, nil
}

// open makes one request and leaves the answer's body to be read and closed, for what comes bit by bit.
func (c *client) open(method, path string, body any, headers map[string]string) (*http.Response, error) {
	var text []byte
	switch given := body.(type) {
	case nil:
	case []byte:
		text = given
	default:
		var buffer bytes.Buffer
		encoder := json.NewEncoder(&buffer)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(given); err != nil {
			return nil, &problem{code: "INVALID_REQUEST", message: "This cannot be said in JSON.", exit: exitInvalid}
		}
		text = bytes.TrimRight(buffer.Bytes(), "\n")
	}
	request, err := http.NewRequest(method, c.base+path, bytes.NewReader(text))
	if err != nil {
		return nil, &problem{code: "INVALID_REQUEST", message: "This is no path of the broker's: " + path, exit: exitInvalid}
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "inbox/"+version)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	proxy, err := http.ProxyFromEnvironment(request)
	if err != nil { // not said as it is: the address may hold a password
		return nil, unreachable("The proxy that HTTP_PROXY or HTTPS_PROXY names cannot be used.", hintProxy)
	}
	c.http.Timeout = c.timeout
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.noAnswer(err, proxy != nil)
	}
	if response.StatusCode >= 300 && response.StatusCode < 400 && response.StatusCode != http.StatusNotModified {
		response.Body.Close()
		return nil, unreachable("The broker's address answers with a redirect, which is not followed.",
			"Give the address it points to: "+response.Header.Get("Location"))
	}
	return response, nil
}

const hintProxy = "HTTP_PROXY, HTTPS_PROXY and NO_PROXY say which way requests go."

// noAnswer says in a person's words why no answer came.
func (c *client) noAnswer(err error, proxied bool) *problem {
	at := withoutSecrets(c.base)
	hint := "Is `inboxd serve` running? `inbox config` shows where the address comes from."
	if proxied {
		hint = hintProxy
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var (
		timeout   interface{ Timeout() bool }
		network   *net.OpError
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		checked   *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority):
		return unreachable("The certificate of "+at+" is signed by nobody known here.",
			"Name the authority's file with INBOX_CA_FILE.")
	case errors.As(err, &name):
		return unreachable("The certificate of "+at+" is for another name: "+name.Error()+".",
			"Give the address by a name that the certificate has.")
	case errors.As(err, &checked):
		return unreachable("The certificate of "+at+" is not accepted: "+checked.Err.Error()+".", "Renew it at the broker.")
	case errors.Is(err, http.ErrSchemeMismatch):
		return unreachable("What answers at "+at+" does not speak https.", "Write http:// if that is meant.")
	case errors.As(err, &network) && network.Op == "proxyconnect":
		return unreachable("The proxy on the way to "+at+" cannot be reached: "+network.Err.Error()+".", hintProxy)
	case errors.As(err, &timeout) && timeout.Timeout():
		if !proxied {
			hint = "Try again; `inbox config` shows the address."
		}
		return unreachable("The broker at "+at+" did not answer in time.", hint)
	}
	return unreachable("The broker at "+at+" cannot be reached: "+cutTo(oneLine(err.Error()), whyMax)+".", hint)
}
