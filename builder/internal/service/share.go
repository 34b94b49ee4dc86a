package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"goless.io/builder/remote"
)

// sharePatience is how long another replica may take to receive a binary.
const sharePatience = time.Minute

// share gives what was built here to the other replicas. A pod asks any of them,
// mostly a moment later, and then nobody has to wait for another; and one that dies
// takes nothing along. Whoever cannot be reached asks when it needs it.
func (s *Service) share(key string) {
	if s.config.Peers == nil {
		return
	}
	s.sharing.Go(func() {
		ctx, cancel := context.WithTimeout(s.life, sharePatience)
		defer cancel()
		addresses, err := s.config.Peers(ctx)
		for _, address := range addresses {
			err = errors.Join(err, s.give(ctx, address, key))
		}
		if err != nil {
			s.config.Log.Debug("sharing a binary", "key", short(key), "error", err)
		}
	})
}

// give sends a binary to the replica at address, unless that has it.
func (s *Service) give(ctx context.Context, address, key string) error {
	file, known, err := s.store.open(key)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, "https://"+address+remote.BinariesPath+key, file)
	if err != nil {
		return err
	}
	encoded, err := known.header()
	if err != nil {
		return err
	}
	request.ContentLength = known.Size
	request.Header.Set("Expect", "100-continue") // it may not want it
	request.Header.Set("Authorization", "Bearer "+s.config.Keys.Token())
	request.Header.Set(recordHeader, encoded)
	response, err := s.peers.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it is empty
	if response.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	return nil
}

// serveGift answers PUT /v1/binaries/{key} of another replica.
func (s *Service) serveGift(w http.ResponseWriter, r *http.Request) {
	if !s.authorized(r, s.config.Keys.Token()) {
		http.Error(w, "this token does not bring binaries", http.StatusUnauthorized)
		return
	}
	key := r.PathValue("key")
	given, err := recordOf(r.Header.Get(recordHeader))
	if decoded, wrong := hex.DecodeString(key); wrong != nil || len(decoded) != sha256.Size || err != nil {
		http.Error(w, "the key or the record is not one", http.StatusBadRequest)
		return
	}
	if _, ok := s.store.find(key); ok || s.fetches.has(key) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err := http.NewResponseController(w).SetReadDeadline(time.Now().Add(sharePatience)); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if err := s.receive(key, given, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
