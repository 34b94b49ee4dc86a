// want: 11 BuildTimeout

package p

import "net/http"

type t0 struct{ a, b int }

type (
	t1 struct{ a, b t0 }
	t2 struct{ a, b t1 }
	t3 struct{ a, b t2 }
	t4 struct{ a, b t3 }
	t5 struct{ a, b t4 }
	t6 struct{ a, b t5 }
	t7 struct{ a, b t6 }
	t8 struct{ a, b t7 }
	t9 struct{ a, b t8 }
	t10 struct{ a, b t9 }
	t11 struct{ a, b t10 }
	t12 struct{ a, b t11 }
	t13 struct{ a, b t12 }
	t14 struct{ a, b t13 }
	t15 struct{ a, b t14 }
	t16 struct{ a, b t15 }
	t17 struct{ a, b t16 }
	t18 struct{ a, b t17 }
	t19 struct{ a, b t18 }
	t20 struct{ a, b t19 }
	t21 struct{ a, b t20 }
	t22 struct{ a, b t21 }
	t23 struct{ a, b t22 }
	t24 struct{ a, b t23 }
	t25 struct{ a, b t24 }
	t26 struct{ a, b t25 }
	t27 struct{ a, b t26 }
	t28 struct{ a, b t27 }
)

func f() (x t28) { return }

func Handler(w http.ResponseWriter, r *http.Request) { f() }
