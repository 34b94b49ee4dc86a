package runtime

import (
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// attributePrefix is prepended to the key of an attribute that would duplicate a key of its
// line. Readers use only one of two equal keys, and could miss the level of the line.
const attributePrefix = "attr."

// attributeCore writes lines of user code. It renames top-level attributes whose keys the line
// already has, for example level to attr.level.
type attributeCore struct {
	zapcore.Core
	taken  []string // keys that the line already has
	nested bool     // attributes belong to a group, in which no key collides
}

// Check implements [zapcore.Core]. It delegates to the wrapped core, which may be a sampler.
func (c *attributeCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Core.Check(entry, nil) == nil {
		return checked
	}
	return checked.AddCore(entry, c)
}

// With implements [zapcore.Core].
func (c *attributeCore) With(fields []zapcore.Field) zapcore.Core {
	isGroup := func(f zapcore.Field) bool { return f.Type == zapcore.NamespaceType }
	return &attributeCore{c.Core.With(c.rename(fields)), c.taken, c.nested || slices.ContainsFunc(fields, isGroup)}
}

// Write implements [zapcore.Core].
func (c *attributeCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(entry, c.rename(fields))
}

// rename returns the fields, with new keys for those that collide.
func (c *attributeCore) rename(fields []zapcore.Field) []zapcore.Field {
	if c.nested || !slices.ContainsFunc(fields, c.collides) {
		return fields
	}
	var renamed []zapcore.Field
	for i, f := range fields {
		switch {
		case !c.collides(f):
			renamed = append(renamed, f)
		case f.Type == zapcore.InlineMarshalerType:
			renamed = append(renamed, c.rename(inlined(f))...)
		default:
			f.Key = attributePrefix + f.Key
			renamed = append(renamed, f)
		}
		if f.Type == zapcore.NamespaceType {
			return append(renamed, fields[i+1:]...)
		}
	}
	return renamed
}

// collides reports whether the field, or one of its inlined fields, has a key of the line.
func (c *attributeCore) collides(f zapcore.Field) bool {
	if f.Type == zapcore.InlineMarshalerType {
		return slices.ContainsFunc(inlined(f), c.collides)
	}
	return f.Type != zapcore.SkipType && slices.Contains(c.taken, f.Key)
}

// inlined returns the fields of a field without a key, such as a slog group without a name.
func inlined(f zapcore.Field) (fields []zapcore.Field) {
	all := zapcore.NewMapObjectEncoder()
	f.AddTo(all)
	for _, key := range slices.Sorted(maps.Keys(all.Fields)) {
		fields = append(fields, zap.Any(key, all.Fields[key]))
	}
	return fields
}
