// The hook's way to a broker behind https or a proxy: the ordinary client, with the hook's deadlines and its distrust of
// an answer's size.
package main

import (
	"io"
	"net"
	"net/http"
	"time"
)

type slowWire struct {
	client   *client
	deadline time.Time
}

func newSlowWire(from *settings, deadline time.Time) (*slowWire, error) {
	known := *from
	known.broken = nil // a file that is not understood is skipped, not reported, by a hook
	made, problem := newClient(&known)
	if problem != nil {
		return nil, problem
	}
	if transport, ok := made.http.Transport.(*http.Transport); ok {
		transport.DialContext = (&net.Dialer{Timeout: hookConnect}).DialContext
		transport.MaxResponseHeaderBytes = headMax
		transport.DisableCompression = true
	}
	return &slowWire{made, deadline}, nil
}

func (w *slowWire) until(deadline time.Time) {
	w.deadline = deadline
}

func (w *slowWire) post(path string, body []byte) (*answer, error) {
	w.client.timeout = time.Until(w.deadline)
	if w.client.timeout <= 0 {
		return nil, errAnswer
	}
	response, err := w.client.open("POST", path, body, map[string]string{"Accept": "*/*"})
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Encoding") != "" || response.ContentLength < 0 && len(response.TransferEncoding) == 0 {
		return nil, errAnswer // packed, or ended by hanging up: whether it is whole cannot be known
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, hookBodyMax+1))
	if err != nil || len(text) > hookBodyMax {
		return nil, errAnswer
	}
	return &answer{
		status:   response.StatusCode,
		receipt:  response.Header.Get("Inbox-Receipt"),
		task:     response.Header.Get("Inbox-Task"),
		messages: response.Header.Get("Inbox-Messages"),
		exit:     response.Header.Get("Inbox-Exit"),
		stream:   response.Header.Get("Inbox-Stream"),
		within:   response.Header.Get("Inbox-Print-Within-Ms"),
		body:     text,
	}, nil
}

// unreached: the ordinary client says in its error's text alone why there was no answer, so any such error counts.
func (w *slowWire) unreached(err error) bool {
	return err != errAnswer
}
