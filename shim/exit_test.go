package main

import (
	"bytes"
	"testing"
)

func TestTheExitCodeIsAFunctionOfTheStatus(t *testing.T) {
	for status, want := range map[int]int{
		200: 0, 201: 0, 204: 0, 400: 30, 401: 60, 403: 60, 404: 40, 405: 40, 409: 20, 410: 40, 413: 30, 422: 30, 429: 30,
		500: 50, 503: 50, 507: 50,
	} {
		if got := exitOf(status); got != want {
			t.Errorf("%d: %d, not %d", status, got, want)
		}
	}
}

func TestARefusalIsSaidInTheBrokersWords(t *testing.T) {
	answer := []byte(`{"ok":false,"error":{"code":"TASK_UNKNOWN","message":"No task \u001b[31m.","hint":"Is it x?","retry_after_ms":null}}`)
	var out, err bytes.Buffer
	ctx := &context{stdout: &out, stderr: &err}
	if code := ctx.fail(refusal(404, answer)); code != exitUnknown || err.String() != "inbox: No task [31m. Is it x?\n" {
		t.Errorf("%d %q", code, err.String())
	}
	ctx.json = true
	want := `{"ok":false,"error":{"code":"TASK_UNKNOWN","message":"No task \u001b[31m.","hint":"Is it x?","retry_after_ms":null}}` + "\n"
	if ctx.fail(refusal(404, answer)); out.String() != want {
		t.Error(out.String())
	}
	for _, text := range []string{"", "<html>", "{}", "[]"} {
		if got := refusal(502, []byte(text)); got.exit != exitBroken || got.code != "NOT_INBOXD" {
			t.Errorf("%q: %+v", text, got)
		}
		if got := refusal(200, []byte(text)); got.exit != exitBroken {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
