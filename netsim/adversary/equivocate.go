package adversary

import "github.com/apiary-net/hived/wire"

type equivocate struct{}

func (equivocate) About() string {
	return "signs two headers and shows each to half of the peers"
}

func (equivocate) Forge(h *wire.Header, to int) bool {
	h.Loss = 1
	return to%2 == 1
}
