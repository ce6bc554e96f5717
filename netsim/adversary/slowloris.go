package adversary

type slowLoris struct{}

func (slowLoris) About() string {
	return "serves at a few bytes a second"
}

func (slowLoris) Up() float64 { return 16 }
