package adversary

type signFlip struct{}

func (signFlip) About() string {
	return "sends its update with the sign turned"
}

func (signFlip) Update(delta []float32, _ *Honest) { negate(delta) }
func (signFlip) Gradient(g []float32)              { negate(g) }

func negate(x []float32) {
	for i := range x {
		x[i] = -x[i]
	}
}
