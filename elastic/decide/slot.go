package decide

import "fmt"

// Slot names the sign-once slot of a statement of a round or an instance.
func Slot(kind string, n uint64) string { return fmt.Sprintf("%s/%d", kind, n) }
