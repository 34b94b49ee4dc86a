package input

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Serving is what the YAML of a Function says of how it is served. Zero values
// are what it does not say.
type Serving struct {
	// Port is spec.serverPort.
	Port int

	// Env are the variables of spec.env that have a plain value, as name=value.
	Env []string

	// Elsewhere are the names of those whose values only a cluster knows.
	Elsewhere []string

	// Timeout is spec.timeout, such as "30s", and Concurrency is
	// spec.concurrency.
	Timeout, Concurrency string
}

func readServing(spec *yaml.Node) Serving {
	port, _ := strconv.Atoi(field(spec, "serverPort").Value) // 0 when it is no number: that is for the cluster to say
	s := Serving{
		Port:        port,
		Timeout:     field(spec, "timeout").Value,
		Concurrency: field(spec, "concurrency").Value,
	}
	for _, variable := range field(spec, "env").Content {
		name := field(variable, "name").Value
		if from := field(variable, "valueFrom"); from.Kind == 0 {
			s.Env = append(s.Env, name+"="+field(variable, "value").Value)
		} else {
			s.Elsewhere = append(s.Elsewhere, name)
		}
	}
	for _, source := range field(spec, "envFrom").Content {
		for _, kind := range []string{"secretRef", "configMapRef"} {
			if name := field(field(source, kind), "name").Value; name != "" {
				s.Elsewhere = append(s.Elsewhere, "all of "+name)
			}
		}
	}
	return s
}
