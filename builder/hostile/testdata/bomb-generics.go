// want: 12 BuildOutOfMemory

package p

import "net/http"

type pair[A, B any] struct {
	a A
	b B
}

type (
	t0 = pair[int, int]
	t1 = pair[t0, t0]
	t2 = pair[t1, t1]
	t3 = pair[t2, t2]
	t4 = pair[t3, t3]
	t5 = pair[t4, t4]
	t6 = pair[t5, t5]
	t7 = pair[t6, t6]
	t8 = pair[t7, t7]
	t9 = pair[t8, t8]
	t10 = pair[t9, t9]
	t11 = pair[t10, t10]
	t12 = pair[t11, t11]
	t13 = pair[t12, t12]
	t14 = pair[t13, t13]
	t15 = pair[t14, t14]
	t16 = pair[t15, t15]
	t17 = pair[t16, t16]
	t18 = pair[t17, t17]
	t19 = pair[t18, t18]
	t20 = pair[t19, t19]
	t21 = pair[t20, t20]
	t22 = pair[t21, t21]
)

var x t22

func Handler(w http.ResponseWriter, r *http.Request) { _ = x }
