package adversary

type alie struct{}

func (alie) About() string {
	return "stays within the spread of the honest updates (Baruch et al. 2019, arXiv 1902.06156)"
}

func (alie) Update(delta []float32, before *Honest) {
	for i := range delta {
		mean, std := before.Of(i)
		delta[i] = float32(mean - std)
	}
}
