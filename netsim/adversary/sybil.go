package adversary

import "github.com/apiary-net/hived/wire"

type sybil struct{}

func (sybil) About() string {
	return "is not admitted and asks for a seat all the same"
}

func (sybil) Stranger() {}

func (sybil) Noise(v View) [][]byte {
	return [][]byte{wire.Seal(v.Key, wire.KindReady, v.Run, 0, &wire.Ready{Schema: v.Schema, Data: v.Data}).Bytes()}
}
