package merge

// mean weighs by samples.
type mean struct{ fold }

func (mean) Weights(stats []Stat) ([]float32, float64, error) {
	return weights(stats, func(Stat) float32 { return 1 })
}
