package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

var scanFields = []wanted{
	{"session_id", 40, cutAll},
	{"head", 40, cutTail},
	{"tail", 40, cutHead},
	{"flag", 40, cutAll},
	{"outer.inner", 40, cutAll},
}

func scanText(t testing.TB, text []byte, bufferSize int) (map[string]string, error) {
	values, err := scanObject(bytes.NewReader(text), scanFields, make([]byte, bufferSize))
	if err != nil {
		return nil, err
	}
	kept := map[string]string{}
	for at, value := range values {
		if value != nil {
			if !json.Valid(value) {
				t.Fatalf("%q was kept from %q and is no JSON", value, text)
			}
			if len(value) > 40 {
				t.Fatalf("%q is longer than it may be", value)
			}
			kept[scanFields[at].name] = string(value)
		}
	}
	return kept, nil
}

func TestWantedFieldsAreCopiedAndTheRestRunsPast(t *testing.T) {
	long := strings.Repeat("abcdefghi ", 10)
	for _, one := range []struct {
		text string
		want map[string]string
	}{
		{`{}`, map[string]string{}},
		{` {"session_id" : "x" , "other":[{"session_id":"no"}]}`, map[string]string{"session_id": `"x"`}},
		{`{"other":{"a":"}]\"","b":["{"]},"flag":true}`, map[string]string{"flag": `true`}},
		{`{"other":"\\","flag":1}`, map[string]string{"flag": `1`}},
		{`{"other":"a\\\"","flag\\":"\"\"\\\\","flag":1}`, map[string]string{"flag": `1`}},
		{`{"flag":-1.5e+3,"n":null,"m":0}`, map[string]string{"flag": `-1.5e+3`}},
		{`{"session_id":"` + long + `"}`, map[string]string{}},
		{`{"head":"` + long + `"}`, map[string]string{"head": `"` + long[:38] + `"`}},
		{`{"tail":"` + long + `"}`, map[string]string{"tail": `"` + long[len(long)-38:] + `"`}},
		{`{"tail":"` + strings.Repeat(`\n`, 50) + `x"}`, map[string]string{"tail": `"` + strings.Repeat(`\n`, 18) + `x"`}},
		{`{"session_id":"a","session_id":"b"}`, map[string]string{"session_id": `"b"`}},
		{`{"session_id":{"a":1},"flag":[1]}`, map[string]string{}},
		{`{"outer":{"inner":"i","session_id":"no"},"session_id":"yes"}`, map[string]string{"outer.inner": `"i"`, "session_id": `"yes"`}},
		{`{"outer":[1,{"inner":"no"}],"flag":1}`, map[string]string{"flag": `1`}},
		{`{"outer":{"inner":{"inner":"no"}}}`, map[string]string{}},
		{`{"head":"\ud83d\ude00\ud83dx\udc00\u0000\u00E9"}`, map[string]string{"head": `"😀` + "\ufffdx\ufffd\ufffd" + `\u00e9"`}},
		{"{\"head\":\"\xff\xe2\x82x\xe2\x82\xac\"}", map[string]string{"head": "\"\ufffd\ufffdx\xe2\x82\xac\""}},
		{`{"flag":true} and what follows is not waited for`, map[string]string{"flag": `true`}},
	} {
		for _, size := range []int{1, 2, 7, 4096} {
			got, err := scanText(t, []byte(one.text), size)
			if err != nil {
				t.Errorf("%s: refused", one.text)
				continue
			}
			if len(got) != len(one.want) {
				t.Errorf("%s: kept %q", one.text, got)
			}
			for name, value := range one.want {
				if got[name] != value {
					t.Errorf("%s: %s is %q, not %q", one.text, name, got[name], value)
				}
			}
		}
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	for _, text := range []string{
		``, ` `, `[]`, `"x"`, `1`, `{`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`, `{"a" 1}`, `{"a":x}`,
		`{"flag":tru}`, `{"flag":01}`, `{"flag":1.}`, `{"flag":-}`, `{"flag":1e}`, `{"head":"\x"}`, `{"head":"\u12g4"}`,
		"{\"head\":\"a\nb\"}", `{"other":"`, `{"other":[`, `{"other":[}`, `{"head":"\`,
	} {
		if got, err := scanText(t, []byte(text), 16); err == nil {
			t.Errorf("%s: taken as %v", text, got)
		}
	}
}

func TestAReaderThatFailsOrGivesNothingIsAnEnd(t *testing.T) {
	for _, input := range []io.Reader{
		iotest.ErrReader(io.ErrUnexpectedEOF),
		iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(`{"flag":true}`))),
		stuckReader{},
	} {
		if _, err := scanObject(input, scanFields, make([]byte, 8)); err == nil {
			t.Error("taken")
		}
	}
}

type stuckReader struct{}

func (stuckReader) Read([]byte) (int, error) { return 0, nil }

func TestQuotingAndUnquotingAreInverse(t *testing.T) {
	for _, text := range []string{"", "plain", "\"\\/\b\f\n\r\t", "é😀\u2028", "\x01\x1f"} {
		quoted := appendQuoted(nil, text)
		var meant string
		if err := json.Unmarshal(quoted, &meant); err != nil || meant != text {
			t.Errorf("%q is quoted as %s", text, quoted)
		}
		if back := textOf(quoted); back != text {
			t.Errorf("%q comes back as %q", text, back)
		}
	}
	if textOf([]byte(`12`)) != "" || textOf(nil) != "" {
		t.Error("what is no string has no text")
	}
}

func FuzzScanObject(f *testing.F) {
	for _, seed := range []string{
		`{"session_id":"x","tail":"\ud83d\ude00","flag":1.5}`, `{"outer":{"inner":"x"},"other":[[{"a":"\\\""}]]}`,
		`{"head":"\ud83d`, `{"flag":-0.0e-0}`, "{\"head\":\"\xf0\x9f\x98\"}", `{{{{`, "\x00", `{"":""}`, `{"session_id":null}`,
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, size int) {
		small, err := scanText(t, text, 1+abs(size)%64)
		whole, wholeErr := scanText(t, text, 4096)
		if (err == nil) != (wholeErr == nil) || len(small) != len(whole) {
			t.Fatalf("%q depends on the buffer", text)
		}
		for name, value := range whole {
			if small[name] != value {
				t.Fatalf("%q depends on the buffer", text)
			}
			var meant any
			json.Unmarshal([]byte(value), &meant)
			if said, isText := meant.(string); isText && textOf([]byte(value)) != said {
				t.Fatalf("%s means %q, not %q", value, said, textOf([]byte(value)))
			}
		}
		// Whatever a strict reader takes as an object is taken here too.
		var object map[string]json.RawMessage
		if json.Unmarshal(text, &object) == nil && object != nil && wholeErr != nil && !hasLongNumber(object) {
			t.Fatalf("%q is an object and was refused", text)
		}
	})
}

func hasLongNumber(object map[string]json.RawMessage) bool {
	for _, value := range object {
		if len(value) > wordMax {
			return true
		}
	}
	return false
}

func abs(number int) int {
	if number < 0 {
		return -(number + 1)
	}
	return number
}
