package controllers

// For the tests of package controllers_test.
var (
	MayList     = mayList
	GatewayKind = gatewayKind
)
