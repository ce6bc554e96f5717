package adversary

type drift struct{}

func (drift) About() string {
	return "adds the same direction every round"
}

func (drift) Update(delta []float32, _ *Honest) { shift(delta) }
func (drift) Gradient(g []float32)              { shift(g) }

func shift(x []float32) {
	for i := range x {
		x[i] += 0.05
	}
}
