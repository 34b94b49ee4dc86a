package buildapi_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"goless.io/builder/buildapi"
)

func TestOrderInJSON(t *testing.T) {
	cases := map[string]struct {
		order buildapi.Order
		want  string
	}{
		"Least": {buildapi.Order{Namespace: "a", Source: "package p"}, `{"namespace":"a","source":"package p"}`},
		"All": {
			buildapi.Order{Namespace: "a", Source: "<\u2028>", Timeout: 90 * time.Second, Memory: 1 << 30, Environment: map[string]string{"GOPROXY": "off"}},
			`{"namespace":"a","source":"\u003c\u2028\u003e","timeout":90000000000,"memory":1073741824,"environment":{"GOPROXY":"off"}}`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			data, err := json.Marshal(c.order)
			if err != nil || string(data) != c.want {
				t.Errorf("it is %s, %v, want %s", data, err, c.want)
			}
			var back buildapi.Order
			if err := json.Unmarshal(data, &back); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.order, back); diff != "" {
				t.Errorf("it comes back as -want +got\n%s", diff)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	good := buildapi.Order{Namespace: "team-a", Source: "package p", Environment: map[string]string{"GOPROXY": "off", "NO_PROXY": ".svc"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	if err := (buildapi.Order{Namespace: "team-a", Key: "K"}).Validate(); err != nil {
		t.Errorf("an order by key: %v", err)
	}
	bad := map[string]func(*buildapi.Order){
		"Namespace":     func(o *buildapi.Order) { o.Namespace = "" },
		"LongNamespace": func(o *buildapi.Order) { o.Namespace = strings.Repeat("a", 64) },
		"TwoLines":      func(o *buildapi.Order) { o.Namespace = "a\nb" },
		"Source":        func(o *buildapi.Order) { o.Source = "" },
		"LongSource":    func(o *buildapi.Order) { o.Source = strings.Repeat("ä", 245761) },
		"Timeout":       func(o *buildapi.Order) { o.Timeout = -1 },
		"Memory":        func(o *buildapi.Order) { o.Memory = -1 },
		"Variable":      func(o *buildapi.Order) { o.Environment = map[string]string{"GOFLAGS": "-toolexec=sh"} },
		"FileProxy": func(o *buildapi.Order) {
			o.Environment = map[string]string{"GOPROXY": "https://a.example,FILE:///|off"}
		},
		"FileSums": func(o *buildapi.Order) { o.Environment = map[string]string{"GOSUMDB": "sum.example+key file:///"} },
		"Value":    func(o *buildapi.Order) { o.Environment = map[string]string{"GOPROXY": "a\x00b"} },
	}
	for name, spoil := range bad {
		o := good
		if spoil(&o); o.Validate() == nil {
			t.Errorf("%s: Validate accepts %+v", name, o)
		}
	}
}

// FuzzOrder decodes untrusted data. Encoding and decoding must preserve a valid order.
func FuzzOrder(f *testing.F) {
	f.Add([]byte(`{"namespace":"a","source":"package p","timeout":90000000000,"memory":1,"environment":{"GOPROXY":"off"}}`))
	f.Add([]byte(`{"namespace":"a","source":"\ud800","timeout":-0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var o, back buildapi.Order
		if json.Unmarshal(data, &o) != nil || o.Validate() != nil {
			return
		}
		again, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &back); err != nil {
			t.Fatalf("%s: %v", again, err)
		}
		if diff := cmp.Diff(o, back, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("it comes back as -want +got\n%s", diff)
		}
	})
}
