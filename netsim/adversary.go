package netsim

// Adversary is how a peer lies. Its zero value is honest.
type Adversary struct {
	Kind string
}

func Adversaries() []string                        { return []string{} }
func newAdversary(kind string, n *Node) *Adversary { return &Adversary{Kind: kind} }
func (a *Adversary) begin()                        {}

func (a *Adversary) block(b []byte) []byte { return b }

func (a *Adversary) update(base, theta []float32, sw *Swarm) {}

func (a *Adversary) gradient(g []float32) {}
