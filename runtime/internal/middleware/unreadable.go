package middleware

import (
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"goless.io/runtime/internal/exchange"
)

// Unreadable counts and logs HTTP/1 requests that the server rejects itself because it cannot
// parse the header: with 431 if it is too long, and with 400 if it is malformed. They do not
// become an exchange. Only the first ten of each second are logged.
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
		Help: "HTTP/1 requests rejected because their header is too long (431) or malformed (400).",
	}, []string{"code"})
	for _, status := range []int{http.StatusRequestHeaderFieldsTooLarge, http.StatusBadRequest} {
		u.total.WithLabelValues(codes[codeIndex(status)]) // exported as 0 instead of missing
	}
	reg.MustRegister(u.total)
	return u
}

// Observe counts and logs one request, given the status of its response.
func (u *Unreadable) Observe(status int, peer net.Addr) {
	u.total.WithLabelValues(codes[codeIndex(status)]).Inc()
	if u.sampling.Keep(time.Now()) {
		u.logger.Warn("invalid request header",
			zap.Int("http.response.status_code", status), zap.String("reason", http.StatusText(status)),
			zap.String("network.peer.address", exchange.Host(peer.String())))
	}
}
