package train

import "fmt"

// readStart reads first weights in hived's own names.
func readStart(path string, args map[string]int64, model string) ([]Tensor, error) {
	t, err := ReadModel(path)
	if err != nil {
		return nil, fmt.Errorf("start weights of %s: %w", model, err)
	}
	return t, nil
}
