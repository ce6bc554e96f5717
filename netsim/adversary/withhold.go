package adversary

type withhold struct{}

func (withhold) About() string {
	return "commits itself and serves nothing"
}

func (withhold) Serve([]byte) []byte { return nil }
