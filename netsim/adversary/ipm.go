package adversary

type ipm struct{}

func (ipm) About() string {
	return "sends the mean of the honest updates turned round (Xie et al. 2019, arXiv 1903.03936)"
}

func (ipm) Update(delta []float32, before *Honest) {
	for i := range delta {
		mean, _ := before.Of(i)
		delta[i] = float32(-mean)
	}
}

func (ipm) Gradient(g []float32) { negate(g) }
