// want: 11 BuildTimeout

package p

import "net/http"

type I[T any] interface{ M() interface{ I[*T] } }

func Handler(w http.ResponseWriter, r *http.Request) {}
