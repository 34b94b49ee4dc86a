// want: 12 BuildOutOfMemory

package p

import "net/http"

const (
	s0 = "0123456789abcdef0123456789abcdef"
	s1 = s0 + s0
	s2 = s1 + s1
	s3 = s2 + s2
	s4 = s3 + s3
	s5 = s4 + s4
	s6 = s5 + s5
	s7 = s6 + s6
	s8 = s7 + s7
	s9 = s8 + s8
	s10 = s9 + s9
	s11 = s10 + s10
	s12 = s11 + s11
	s13 = s12 + s12
	s14 = s13 + s13
	s15 = s14 + s14
	s16 = s15 + s15
	s17 = s16 + s16
	s18 = s17 + s17
	s19 = s18 + s18
	s20 = s19 + s19
	s21 = s20 + s20
	s22 = s21 + s21
	s23 = s22 + s22
	s24 = s23 + s23
)

func Handler(w http.ResponseWriter, r *http.Request) { w.Write([]byte(s24)) }
