package cloudevent_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"goless.io/builder/internal/cloudevent"
)

// TestWhole checks that a complete event keeps its attributes, and that its data becomes the body.
func TestWhole(t *testing.T) {
	const head = `{"specversion": "1.0", "id": "7 %", "source": "/shop", "type": "order.created", `
	for name, test := range map[string]struct {
		rest, contentType, body string
	}{
		"JSON":        {`"data": {"n": 7}}`, "application/json", `{"n": 7}`},
		"JSONString":  {`"data": "text"}`, "application/json", `"text"`},
		"OtherJSON":   {`"datacontenttype": "application/order+json; v=1", "data": "text"}`, "application/order+json; v=1", `"text"`},
		"Text":        {`"datacontenttype": "text/plain", "data": "a\nb"}`, "text/plain", "a\nb"},
		"Base64":      {`"datacontenttype": "image/png", "data_base64": "AAEC"}`, "image/png", "\x00\x01\x02"},
		"WithoutData": {`"datacontenttype": "text/plain"}`, "text/plain", ""},
	} {
		t.Run(name, func(t *testing.T) {
			header, body, err := cloudevent.Read([]byte(head + `"count": 3, "urgent": true, ` + test.rest))
			if err != nil {
				t.Fatal(err)
			}
			want := http.Header{
				"Ce-Specversion": {"1.0"}, "Ce-Id": {"7%20%25"}, "Ce-Source": {"/shop"}, "Ce-Type": {"order.created"},
				"Ce-Count": {"3"}, "Ce-Urgent": {"true"}, "Content-Type": {test.contentType},
			}
			if diff := cmp.Diff(want, header); diff != "" {
				t.Errorf("headers: -want +got\n%s", diff)
			}
			if string(body) != test.body {
				t.Errorf("body is %q, want %q", body, test.body)
			}
		})
	}
}

// TestData checks that data becomes a new event.
func TestData(t *testing.T) {
	for text, want := range map[string]string{`{"n": 7}`: "application/json", "hello": "text/plain; charset=utf-8", `["specversion"]`: "application/json"} {
		header, body, err := cloudevent.Read([]byte(text))
		if err != nil || string(body) != text || header.Get("Content-Type") != want {
			t.Errorf("%s: %v %q (%v)", text, header, body, err)
		}
		for _, name := range []string{"Specversion", "Id", "Source", "Type", "Time"} {
			if header.Get("Ce-"+name) == "" {
				t.Errorf("%s: the event has no %s", text, name)
			}
		}
	}
	first, _, _ := cloudevent.Read(nil)
	second, _, _ := cloudevent.Read(nil)
	if first.Get("Ce-Id") == second.Get("Ce-Id") {
		t.Error("two events have the same id")
	}
}

func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		`{"specversion": "1.0", "source": "/", "type": "t"}`:                                       "the event has no id",
		`{"specversion": "1.0", "id": "1", "source": "/", "type": "t", "x": {}}`:                   "the attribute x of the event must be a string, a number or a boolean, and is {}",
		`{"specversion": "1.0", "id": "1", "source": "/", "type": "t", "x": null}`:                 "the attribute x of the event",
		`{"specversion": "1.0", "id": "1", "source": "/", "type": "t", "data_base64": "not base"}`: "data_base64 of the event is not valid base64",
	} {
		if _, _, err := cloudevent.Read([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
