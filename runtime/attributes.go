package runtime

import (
	"maps"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// attributePrefix is put before the key of an attribute that would double a key of its
// line: a reader takes one of the two, and so might miss the level of the line.
const attributePrefix = "attr."

// attributeCore writes lines of user code. Of their attributes it renames those that have
// a key of the line, on the top level: level becomes attr.level.
type attributeCore struct {
	zapcore.Core
	taken  []string // keys of the line
	nested bool     // attributes belong to a group, where each key is free
}

// Check is part of [zapcore.Core]. The core below decides, since it may be a sampler.
func (c *attributeCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Core.Check(entry, nil) == nil {
		return checked
	}
	return checked.AddCore(entry, c)
}

// With is part of [zapcore.Core].
func (c *attributeCore) With(fields []zapcore.Field) zapcore.Core {
	isGroup := func(f zapcore.Field) bool { return f.Type == zapcore.NamespaceType }
	return &attributeCore{c.Core.With(c.rename(fields)), c.taken, c.nested || slices.ContainsFunc(fields, isGroup)}
}

// Write is part of [zapcore.Core].
func (c *attributeCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(entry, c.rename(fields))
}

// rename returns the fields with other keys where that is necessary.
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

// collides reports whether the field, or one of those that it stands for, has a key of
// the line.
func (c *attributeCore) collides(f zapcore.Field) bool {
	if f.Type == zapcore.InlineMarshalerType {
		return slices.ContainsFunc(inlined(f), c.collides)
	}
	return f.Type != zapcore.SkipType && slices.Contains(c.taken, f.Key)
}

// inlined returns the fields of a field that has no key of its own, such as a group of slog
// without a name.
func inlined(f zapcore.Field) (fields []zapcore.Field) {
	all := zapcore.NewMapObjectEncoder()
	f.AddTo(all)
	for _, key := range slices.Sorted(maps.Keys(all.Fields)) {
		fields = append(fields, zap.Any(key, all.Fields[key]))
	}
	return fields
}
