package middleware

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

// Unreadable counts and logs the HTTP/1 requests that the server answers by itself, since
// it cannot read their header: 431 where it is too long, 400 where it is malformed. They
// never become an exchange. The log has the first ten of a second.
type Unreadable struct {
	logger   *zap.Logger
	total    *prometheus.CounterVec
	sampling Sampler
}

// NewUnreadable returns an Unreadable whose metric is registered in reg.
func NewUnreadable(reg prometheus.Registerer, logger *zap.Logger) *Unreadable {
	u := &Unreadable{logger: logger, sampling: Sampler{First: 10}}
	u.total = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "goless_requests_unreadable_total",
		Help: "HTTP/1 requests that were refused because their header is too long (431) or malformed (400).",
	}, []string{"code"})
	for _, status := range []int{http.StatusRequestHeaderFieldsTooLarge, http.StatusBadRequest} {
		u.total.WithLabelValues(codeOf(status)) // 0 and not missing
	}
	reg.MustRegister(u.total)
	return u
}

// Observe counts and logs one request with the status of its answer.
func (u *Unreadable) Observe(status int, peer net.Addr) {
	u.total.WithLabelValues(codeOf(status)).Inc()
	if u.sampling.Keep(time.Now()) {
		u.logger.Warn("the header of a request cannot be read",
			zap.Int("http.response.status_code", status), zap.String("reason", http.StatusText(status)),
			zap.String("network.peer.address", exchange.Host(peer.String())))
	}
}
