package adversary

type freeRider struct{}

func (freeRider) About() string {
	return "does nothing and says that it did"
}

func (freeRider) Update(delta []float32, _ *Honest) { clear(delta) }
func (freeRider) Gradient(g []float32)              { clear(g) }
