package handler

import (
	"fmt"
	"slices"
	"strings"
)

// choose fills in the directory of the handler's package. That is the top, unless
// another package of the module declares Handler and the top does not. It is one
// that no other package imports: those are what the handler is made of. choose
// reports whether the package can be judged: everything in it can be read, and no
// other could be meant.
func (c *checker) choose() bool {
	c.dir = root
	found := c.declaring()
	if !slices.Contains(dirs(found), root) && c.mod != nil {
		found = c.entry(found)
		if len(found) > 0 {
			c.dir = found[0].dir
		}
		for i := range found[min(1, len(found)):] {
			other := found[i+1]
			c.report(other, other.handler().Pos(), fmt.Sprintf("Handler is also in %s, and a Function has one: name the directory of its package, or leave the other out", c.dir))
		}
	}
	return len(found) <= 1 && !slices.ContainsFunc(c.files, func(f *file) bool {
		return f.isGo && f.syntax == nil && (f.dir == c.dir || len(found) == 0)
	})
}

// declaring returns the first file that declares Handler of each package.
func (c *checker) declaring() (found []*file) {
	for _, f := range c.files {
		if f.built && f.handler() != nil && !slices.Contains(dirs(found), f.dir) {
			found = append(found, f)
		}
	}
	return found
}

func dirs(files []*file) (all []string) {
	for _, f := range files {
		all = append(all, f.dir)
	}
	return all
}

// entry returns those of files whose package may be the handler's: no other package
// imports it. If some of these declare a handler in a package that can be imported, it
// returns them alone.
func (c *checker) entry(files []*file) []*file {
	imported := map[string]bool{}
	for _, i := range c.imports {
		imported[strings.TrimPrefix(i.Path, c.modulePath()+"/")] = true
	}
	files = slices.DeleteFunc(files, func(f *file) bool { return imported[f.dir] })
	packages := c.packages()
	right := slices.DeleteFunc(slices.Clone(files), func(f *file) bool {
		i := slices.IndexFunc(packages, func(p *pkg) bool { return p.dir == f.dir })
		return f.syntax.Name.Name == "main" || i < 0 || !packages[i].handles(f)
	})
	if len(right) > 0 {
		return right
	}
	return files
}

// handles reports whether what f declares is a handler.
func (p *pkg) handles(f *file) bool {
	p.declare()
	fn := f.handler()
	return fn.Type.TypeParams == nil && p.matches(f, fn, handlerShape)
}
