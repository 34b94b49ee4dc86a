// Package older names modules that the runtime has newer versions of.
package older

import (
	_ "github.com/prometheus/client_golang/prometheus/promauto"
	_ "golang.org/x/sys/unix"
)
