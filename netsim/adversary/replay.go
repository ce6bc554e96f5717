package adversary

type replay struct{ seen [][]byte }

func (*replay) About() string {
	return "announces again what it has heard"
}

// remembered bounds what is kept to be announced again.
const remembered = 256

func (a *replay) Heard(b []byte) {
	if len(a.seen) < remembered {
		a.seen = append(a.seen, b)
	}
}

func (a *replay) Noise(v View) [][]byte {
	if len(a.seen) == 0 {
		return nil
	}
	return [][]byte{a.seen[v.Rand.IntN(len(a.seen))]}
}
