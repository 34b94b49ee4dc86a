package schema

import (
	"fmt"
	"math/big"
	"regexp"

	"go.yaml.in/yaml/v3"

	"goless.io/builder/handler"
	"goless.io/builder/internal/yamlnode"
)

// Names of container resources in a spec.
const (
	cpu              = "cpu"
	memory           = "memory"
	ephemeralStorage = "ephemeral-storage"
)

// defaultLimits are the limits of the serving container if neither the Function nor the settings
// and classes of the cluster set others.
var defaultLimits = map[string]string{memory: "256Mi", ephemeralStorage: "1Gi"}

// checkTogether checks combinations of fields, which the operator checks in addition to the schema.
// It ignores a value that is not a quantity, because the schema rejects it.
func (c *fieldChecker) checkTogether(spec *yaml.Node) {
	if drain := yamlnode.Field(spec, "drainSeconds"); drain.Kind != 0 && kindOf(drain) != "null" && hasVariable(spec, "DRAIN_TIMEOUT") {
		c.report(drain, "spec.drainSeconds: spec.env sets DRAIN_TIMEOUT, which is the same setting; remove one of them")
	}
	target, limit := yamlnode.Field(yamlnode.Field(spec, "scaling"), cpu), yamlnode.At(spec, "resources", "limits", cpu)
	if compares(target, limit) && !less(target, limit) {
		c.report(target, fmt.Sprintf("spec.scaling.cpu must be less than spec.resources.limits.cpu (%s); otherwise no replica could exceed the target, and the function would never scale up", limit.Value))
	}
	c.checkRequests("spec.resources", yamlnode.Field(spec, "resources"))
	c.checkRequests("spec.build.resources", yamlnode.At(spec, "build", "resources"))
	if size, name, limit := scratchOf(spec); compares(size, limit) && !less(size, limit) {
		c.report(size, scratchTooLarge(name, limit.Value))
	}
}

// checkRequests reports requests that exceed their limits.
func (c *fieldChecker) checkRequests(path string, resources *yaml.Node) {
	for _, name := range []string{cpu, memory, ephemeralStorage} {
		request, limit := yamlnode.At(resources, "requests", name), yamlnode.At(resources, "limits", name)
		if compares(request, limit) && less(limit, request) {
			c.report(request, fmt.Sprintf("%s.requests.%s exceeds the limit of %s", path, name, limit.Value))
		}
	}
}

// Warnings warns, with positions in file, about a spec.scratch.size that is too large for the
// default limit of Goless (memory with medium Memory, otherwise ephemeral-storage). A cluster may
// have another default.
func Warnings(file string, object *yaml.Node) []handler.Diagnostic {
	spec := yamlnode.Field(object, "spec")
	size, name, limit := scratchOf(spec)
	request := yamlnode.At(spec, "resources", "requests", name)
	byDefault := &yaml.Node{Kind: yaml.ScalarNode, Value: defaultLimits[name]}
	// A request raises the default limit.
	if compares(limit) || !compares(size) || less(size, byDefault) || compares(request) && less(size, request) {
		return nil
	}
	message := scratchTooLarge(name, defaultLimits[name]) + "; some clusters have another default, so set spec.resources.limits." + name
	return []handler.Diagnostic{handler.NewDiagnostic(file, size.Line, size.Column, message)}
}

// scratchOf returns the size of /tmp, and the name and the limit of the resource that its files
// count toward. The limit is an empty node if the spec has none.
func scratchOf(spec *yaml.Node) (size *yaml.Node, name string, limit *yaml.Node) {
	scratch := yamlnode.Field(spec, "scratch")
	name = ephemeralStorage
	if yamlnode.Field(scratch, "medium").Value == "Memory" {
		name = memory
	}
	return yamlnode.Field(scratch, "size"), name, yamlnode.At(spec, "resources", "limits", name)
}

func scratchTooLarge(name, limit string) string {
	return fmt.Sprintf("spec.scratch.size must be less than spec.resources.limits.%s (%s), because files in /tmp count towards it", name, limit)
}

func hasVariable(spec *yaml.Node, name string) bool {
	for _, v := range yamlnode.Field(spec, "env").Content {
		if yamlnode.Field(v, "name").Value == name {
			return true
		}
	}
	return false
}

// quantity matches the quantities that the schema allows.
var quantity = regexp.MustCompile(`^([0-9]{1,19}(?:[.][0-9]{1,9})?)([numkMGTPE]|[KMGTPE]i)?$`)

// compares reports whether all values are quantities.
func compares(values ...*yaml.Node) bool {
	for _, v := range values {
		if v.Kind != yaml.ScalarNode || !quantity.MatchString(v.Value) {
			return false
		}
	}
	return true
}

// less reports whether quantity a is less than b.
func less(a, b *yaml.Node) bool { return amount(a.Value).Cmp(amount(b.Value)) < 0 }

// amount returns the value of a quantity that matches the expression quantity.
func amount(text string) *big.Rat {
	parts := quantity.FindStringSubmatch(text)
	value, _ := new(big.Rat).SetString(parts[1]) // digits
	unit := units[parts[2]]
	return value.Mul(value, new(big.Rat).SetFrac(unit[0], unit[1]))
}

// units are the values of the units, as fractions.
var units = func() map[string][2]*big.Int {
	one := big.NewInt(1)
	all := map[string][2]*big.Int{"": {one, one}}
	for i, name := range []string{"k", "M", "G", "T", "P", "E"} {
		all[name] = [2]*big.Int{power(1000, i+1), one}
	}
	for i, name := range []string{"Ki", "Mi", "Gi", "Ti", "Pi", "Ei"} {
		all[name] = [2]*big.Int{power(1024, i+1), one}
	}
	for i, name := range []string{"m", "u", "n"} {
		all[name] = [2]*big.Int{one, power(1000, i+1)}
	}
	return all
}()

func power(base int64, exponent int) *big.Int {
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(exponent)), nil)
}
