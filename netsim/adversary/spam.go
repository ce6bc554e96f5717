package adversary

import "github.com/apiary-net/hived/wire"

type spam struct{}

func (spam) About() string {
	return "floods with garbage and with statements that it signed"
}

func (spam) Noise(v View) [][]byte {
	garbage := make([]byte, 512)
	for i := range garbage {
		garbage[i] = byte(v.Rand.Uint32())
	}
	round := v.Rand.Uint64N(1 << 20)
	attest := wire.Seal(v.Key, wire.KindAttest, v.Run, round, &wire.Attest{Version: v.Version}).Bytes()
	return [][]byte{garbage, attest}
}
