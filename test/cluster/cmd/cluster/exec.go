package main

// exec replaces the current process by a command in the cluster's network. The command does not
// see other networks of the machine, but its files and processes.
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
