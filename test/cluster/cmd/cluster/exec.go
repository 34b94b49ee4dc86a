package main

// exec becomes a command in the cluster's network. The machine's other networks
// are out of its sight; files and processes are the machine's.
func (c cluster) exec(args []string) error {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return errUsage
	}
	_, n, err := c.runningNode()
	if err != nil {
		return err
	}
	return c.cell.Exec(args, n.ResolvConf())
}
