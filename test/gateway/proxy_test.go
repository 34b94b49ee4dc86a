package main

import (
	"math"
	"testing"
)

// The most specific rule is used, regardless of the order of creation.
func TestFind(t *testing.T) {
	all := rules{
		{host: "", path: "/"},
		{host: "*.test", path: "/"},
		{host: "*.a.test", path: "/"},
		{host: "a.test", path: "/"},
		{host: "a.test", path: "/deep"},
		{host: "a.test", path: "/deep", exact: true},
		{host: "b.test", path: "/only"},
	}
	all.sort()
	for request, want := range map[[2]string]rule{
		{"a.test", "/"}:            {host: "a.test", path: "/"},
		{"a.test", "/deeper"}:      {host: "a.test", path: "/"},
		{"a.test", "/deep/er"}:     {host: "a.test", path: "/deep"},
		{"a.test", "/deep"}:        {host: "a.test", path: "/deep", exact: true},
		{"x.a.test", "/deep"}:      {host: "*.a.test", path: "/"},
		{"x.test", "/"}:            {host: "*.test", path: "/"},
		{"b.test", "/only"}:        {host: "b.test", path: "/only"},
		{"b.test", "/other"}:       {host: "*.test", path: "/"},
		{"elsewhere.example", "/"}: {host: "", path: "/"},
	} {
		got, ok := all.find(request[0], request[1])
		if !ok || got.host != want.host || got.path != want.path || got.exact != want.exact {
			t.Errorf("%s%s goes to %+v, want %+v", request[0], request[1], got, want)
		}
	}
	if got, ok := (rules{{host: "*.test", path: "/"}}).find("test", "/"); ok {
		t.Errorf("test goes to %+v", got)
	}
}

// Backends receive their shares, within six standard deviations.
func TestChoose(t *testing.T) {
	const n = 100_000
	r := rule{backends: []backend{{"old", 90}, {"none", 0}, {"new", 10}}}
	counts := map[string]int{}
	for range n {
		b, ok := r.choose()
		if !ok {
			t.Fatal("there is no backend")
		}
		counts[b.address]++
	}
	if deviation := math.Abs(float64(counts["new"]) - n*0.1); deviation > 6*math.Sqrt(n*0.1*0.9) || counts["old"]+counts["new"] != n {
		t.Errorf("the requests went to %v", counts)
	}
	if b, ok := (rule{backends: []backend{{"old", 0}}}).choose(); ok {
		t.Errorf("a backend without a share was chosen: %v", b)
	}
}
