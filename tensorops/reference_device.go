package tensorops

type referenceDevice struct{}

// Reference returns the device that computes in plain Go: slow, everywhere the
// same, and the meaning of all others.
func Reference() Device { return referenceDevice{} }

func (referenceDevice) Open(p *Plan) (Session, error) { return openHost(p, reference{}), nil }
func (referenceDevice) Info() DeviceInfo              { return DeviceInfo{Name: "reference", Exact: true} }
