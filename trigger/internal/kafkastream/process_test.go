package kafkastream

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"goless.io/trigger/internal/delivery"
	"goless.io/trigger/internal/stream"
)

// roleVariable makes the test binary run as a process of the tests: a broker or a consumer.
const roleVariable = "GOLESS_KAFKA_TEST_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "broker":
		err = serveBroker(os.Args[1], os.Args[2])
	case "consumer":
		err = consume(os.Args[1], os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serveBroker runs a broker that keeps its state in a directory. It prints a line when it is ready.
func serveBroker(port, dir string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	_, err = kfake.NewCluster(kfake.Ports(number), kfake.DataDir(dir), kfake.SyncWrites(), kfake.GroupMinSessionTimeout(100*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "serving")
	select {}
}

// consume runs a consumer until SIGTERM. The first argument is the URL of the function.
func consume(url string, args []string) error {
	var c Consumer
	flags := flag.NewFlagSet("consume", flag.ExitOnError)
	c.Flags(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return c.Run(ctx, newDeliverer(url, slog.New(slog.NewTextHandler(os.Stderr, nil))))
}

// newDeliverer returns a Deliverer with three attempts for each event and short delays.
func newDeliverer(url string, log *slog.Logger) *stream.Deliverer {
	return &stream.Deliverer{
		URL: url, Source: "/test", Concurrency: 16, Drain: time.Minute, Monitor: stream.NewMonitor("v1.2.3", "0123"),
		Sender: delivery.Sender{
			Client: delivery.NewClient(time.Minute, 16), Tries: 3, Log: log,
			Backoff: delivery.Backoff{First: 5 * time.Millisecond, Max: 50 * time.Millisecond, MaxPause: 50 * time.Millisecond},
		},
	}
}

// A process is a broker or a consumer, which can be killed and restarted.
type process struct {
	t       *testing.T
	role    string
	args    []string
	ready   bool // it prints a line when it is ready
	command *exec.Cmd
}

func startProcess(t *testing.T, role string, ready bool, args ...string) *process {
	t.Helper()
	p := &process{t: t, role: role, args: args, ready: ready}
	p.start()
	t.Cleanup(p.kill)
	return p
}

func (p *process) start() {
	p.t.Helper()
	p.command = exec.Command(os.Args[0], p.args...)
	p.command.Env = append(os.Environ(), roleVariable+"="+p.role)
	p.command.Stderr = p.t.Output()
	out, err := p.command.StdoutPipe()
	if err == nil {
		err = p.command.Start()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	if p.ready && !bufio.NewScanner(out).Scan() {
		p.t.Fatal("the", p.role, "has ended at its start")
	}
}

// kill kills the process.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait() // it was killed
}

// brokers contains the addresses of the brokers of a test.
type brokers struct {
	addresses []string
	process   *process      // nil for real brokers
	shortest  time.Duration // shortest session timeout that they allow
}

// withBrokers runs a test with the fake Kafka broker, and with the brokers of KAFKA_BROKERS.
func withBrokers(t *testing.T, test func(*testing.T, brokers)) {
	t.Run("kfake", func(t *testing.T) {
		t.Parallel()
		test(t, fakeBrokers(t))
	})
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		list := os.Getenv("KAFKA_BROKERS")
		if list == "" {
			t.Skip("KAFKA_BROKERS names no brokers, as HOST:PORT,HOST:PORT")
		}
		test(t, brokers{addresses: strings.Split(list, ","), shortest: 6 * time.Second})
	})
}

func fakeBrokers(t *testing.T) brokers {
	t.Helper()
	port := freePort(t)
	p := startProcess(t, "broker", true, port, t.TempDir())
	return brokers{addresses: []string{"127.0.0.1:" + port}, process: p, shortest: time.Second}
}

// freePort returns an unused port. It is below the ephemeral ports, so that no connection can use
// it before the broker does.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(10000 + rand.IntN(20000))
		if free, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil && free.Close() == nil {
			return port
		}
	}
	t.Fatal("of 100 ports none was free")
	return ""
}

// topic creates a topic and its dead-letter topic, and returns a consumer of it.
func (b brokers) topic(t *testing.T, partitions int32) *Consumer {
	t.Helper()
	name := fmt.Sprintf("orders-%d", time.Now().UnixNano())
	admin := kadm.NewClient(b.client(t))
	for topic, n := range map[string]int32{name: partitions, deadLetter(name): 1} {
		if _, err := admin.CreateTopic(t.Context(), n, -1, nil, topic); err != nil {
			t.Fatal(err)
		}
	}
	return &Consumer{Brokers: b.addresses, Topic: name, Group: name, SessionTimeout: session}
}

func (b brokers) client(t *testing.T, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(b.addresses...), kgo.DisableClientMetrics())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// produce writes n records. Each has one of some keys and a number that increases by one with each
// record of the key.
func (b brokers) produce(t *testing.T, topic string, n, keys int) {
	t.Helper()
	b.produceFrom(t, topic, 0, n, keys)
}

// produceFrom writes the records from one number to before another; produce writes the first n.
func (b brokers) produceFrom(t *testing.T, topic string, from, to, keys int) {
	t.Helper()
	client := b.client(t)
	var records []*kgo.Record
	for i := from; i < to; i++ {
		records = append(records, &kgo.Record{Topic: topic, Key: fmt.Append(nil, "key-", i%keys), Value: strconv.AppendInt(nil, int64(i/keys), 10)})
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// deadLetter returns the dead-letter topic of a topic.
func deadLetter(topic string) string { return topic + ".dead" }
