// want: 11 BuildTimeout

package p

import "net/http"

type T[P any] struct{ f0 P; f1 P; f2 P; f3 P; f4 P; f5 P; f6 P; f7 P }

var x *T[T[T[T[T[T[T[T[T[T[T[T[int]]]]]]]]]]]]

func Handler(w http.ResponseWriter, r *http.Request) {}
