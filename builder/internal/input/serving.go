package input

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Serving is what the YAML of a Function says about how it is served. The fields that it
// does not set are zero.
type Serving struct {
	// Port is spec.serverPort.
	Port int

	// Env are the variables of spec.env that have a plain value, as name=value.
	Env []string

	// Elsewhere are the names of the variables whose values are in Secrets, ConfigMaps
	// or the pod.
	Elsewhere []string

	// Timeout is spec.timeout, such as "30s", and Concurrency is
	// spec.concurrency.
	Timeout, Concurrency string
}

func readServing(spec *yaml.Node) Serving {
	port, _ := strconv.Atoi(field(spec, "serverPort").Value) // 0 if it is no number, which the API server rejects
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
